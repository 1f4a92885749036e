"""``mbct export``: the model in another language."""

import inspect
import sys
from typing import TYPE_CHECKING, Any

import click

from mbct.cli.options import check_settings, load_calibrator, model_argument, settings_option
from mbct.cli.shell import OneOf, command, note
from mbct.cli.sinks import STANDARD_OUTPUT, print_bytes
from mbct.errors import ParameterError
from mbct.files import write_atomically

if TYPE_CHECKING:
    from mbct.model.class_scaling import ClassScaling

EXAMPLES = (
    "mbct export model.json --to sql --dialect postgres",
    "mbct export model.json --to sql --form view --set table=shop.clicks -o view.sql",
    "mbct export model.json --to sql --dialect postgres --form auto -o view.sql",
    "mbct export model.json --to rules --form json -o rules.json",
    "mbct export model.json --to python -o calibrate.py",
    "mbct export model.json --to onnx -o model.onnx",
)


def _targets() -> list[str]:
    from mbct.export.registry import TARGETS

    return sorted(TARGETS)


def _many_classes(path: str) -> "ClassScaling | None":
    """The scaling of a model of many classes; None for other models."""
    from mbct.model.file import parse_document, read_bytes

    if not isinstance(parse_document(read_bytes(path), path).get("score_column"), list):
        return None
    from mbct.calibrators.multiclass.scaling import class_scaling

    return class_scaling(load_calibrator(path, many_classes=True))


@command(examples=EXAMPLES)
@model_argument
@click.option(
    "--to",
    required=True,
    metavar="TARGET",
    type=OneOf("target", _targets),
    help="rules, sql, onnx, lightgbm, python, c or pmml.",
)
@click.option("--dialect", help="Of sql: duckdb (unless given), postgres, spark and others; a wrong one lists them.")
@click.option("--form", help="Of sql: expression, select, view, tables (with a view) or auto; of rules: text or json.")
@settings_option("Another option of the target.")
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="FILE",
    type=click.Path(),
    help="File to write; standard output if not given.",
)
def export(model: str, to: str, dialect: str | None, form: str | None, settings: dict[str, Any], output: str) -> None:
    """Write a model as SQL, code or another format.

    The result needs none of this package and gives the same probabilities.
    """
    from mbct.export import export_model
    from mbct.export.class_scaling import TARGETS as CLASS_TARGETS
    from mbct.model.file import load_ensemble

    options = {name: value for name, value in (("dialect", dialect), ("form", form)) if value is not None}
    many = _many_classes(model)
    if many is not None:
        if to not in CLASS_TARGETS:
            raise ParameterError(f"a model of many classes is written as onnx, python or sql, not as {to}")
        exporter = CLASS_TARGETS[to]
        check_settings(f"export {to}", {**options, **settings}, set(inspect.signature(exporter).parameters) - {"model"})
        exported = exporter(many, **options, **settings)
    else:
        exported = export_model(load_ensemble(model), to, **options, **settings)
    content = exported.encode() if isinstance(exported, str) else exported
    if output != STANDARD_OUTPUT:
        write_atomically(output, content)
        note(f"wrote {output} ({len(content):,} bytes)")
        return
    if isinstance(exported, bytes) and sys.stdout.isatty():
        raise ParameterError(f"{to} is no text for a terminal: name a file with -o")
    print_bytes(content)
