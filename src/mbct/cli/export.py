"""``mbct export``: the model in another language."""

import sys
from pathlib import Path
from typing import Any

import click

from mbct.cli.options import model_argument, settings_option
from mbct.cli.shell import OneOf, command, note, write_output
from mbct.cli.sinks import STANDARD_OUTPUT, print_bytes
from mbct.errors import ParameterError
from mbct.files import write_atomically

EXAMPLES = (
    "mbct export model.json --to sql --dialect postgres",
    "mbct export model.json --to sql --form view --set table=shop.clicks -o view.sql",
    "mbct export model.json --to sql --dialect postgres --form auto -o view.sql",
    "mbct export model.json --to dbt --dialect postgres -o mbct_calibration",
    "mbct export model.json --to rules --form json -o rules.json",
    "mbct export model.json --to python -o calibrate.py",
    "mbct export model.json --to onnx -o model.onnx",
)


def _targets() -> list[str]:
    from mbct.export.registry import TARGETS

    return sorted(TARGETS)


@command(examples=EXAMPLES)
@model_argument
@click.option(
    "--to",
    required=True,
    metavar="TARGET",
    type=OneOf("target", _targets),
    help="rules, sql, dbt, onnx, lightgbm, python, c or pmml.",
)
@click.option(
    "--dialect", help="Of sql and dbt: duckdb (unless given), postgres, spark and others; a wrong one lists them."
)
@click.option("--form", help="Of sql: expression, select, view, tables (with a view) or auto; of rules: text or json.")
@settings_option("Another option of the target.")
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="FILE",
    type=click.Path(),
    help="File to write, of dbt a folder; standard output if not given.",
)
def export(model: str, to: str, dialect: str | None, form: str | None, settings: dict[str, Any], output: str) -> None:
    """Write a model as SQL, code or another format.

    The result needs none of this package and gives the same probabilities.
    """
    from mbct.calibrators.persistence import model_of
    from mbct.export import export_model
    from mbct.export.registry import Exported
    from mbct.model.file import read_bytes

    options = {name: value for name, value in (("dialect", dialect), ("form", form)) if value is not None}
    exported: Exported = export_model(model_of(read_bytes(model), model), to, **options, **settings)
    if isinstance(exported, dict):
        _write_folder(output, exported)
        return
    content = exported.encode() if isinstance(exported, str) else exported
    if output != STANDARD_OUTPUT:
        write_output(output, content, f" ({len(content):,} bytes)")
        if to == "sql" and form in (None, "expression"):
            note("it is an expression: SELECT *, (…) AS calibrated FROM t; --form select writes the whole statement")
        return
    if isinstance(exported, bytes) and sys.stdout.isatty():
        raise ParameterError(f"{to} is no text for a terminal: name a file with -o")
    print_bytes(content)


def _write_folder(output: str, files: dict[str, str]) -> None:
    if output == STANDARD_OUTPUT:
        raise ParameterError(f"{len(files)} files are no text for standard output: name a folder with -o")
    for name, content in files.items():
        path = Path(output, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content.encode())
    note(f"wrote {output} ({len(files)} files)")
