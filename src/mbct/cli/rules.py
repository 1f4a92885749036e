"""``mbct rules``: what a model does, as if-then rules."""

import json
import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from mbct.cli.options import json_option, model_argument
from mbct.cli.shell import answer, command, print_json
from mbct.errors import DataError, ParameterError

if TYPE_CHECKING:
    from mbct.model.ensemble import CalibrationEnsemble

EXAMPLES = (
    "mbct rules model.json",
    "mbct rules model.json --tree 1",
    "mbct rules model.json --top 10",
    """mbct rules model.json --explain '{"pctr": 0.2, "device": "mobile"}'""",
    "mbct rules model.json --explain clicks.parquet --row 3",
    "mbct rules model.json --json | jq '.[0]'",
)
_WIDE = 120  # Width of a line where there is no terminal


@command(examples=EXAMPLES)
@model_argument
@click.option("--tree", type=click.IntRange(min=1), help="Only the rules of this tree; 1 is the first.")
@click.option("--top", type=click.IntRange(min=1), help="Only so many rules, each cut to the width of the screen.")
@click.option("--as-tree", is_flag=True, help="Indented trees instead of rules.")
@click.option("--explain", metavar="ROW", help="The rules that apply to this row: JSON, or a file and --row.")
@click.option("--row", type=click.IntRange(min=1), help="Of --explain FILE: which row; 1 is the first.")
@json_option
def rules(
    model: str, tree: int | None, top: int | None, as_tree: bool, explain: str | None, row: int | None, as_json: bool
) -> None:
    """Print a model as if-then rules.

    Those that move the most positives come first. Each begins with its factor, the direction, its training rows and
    their mean prediction before and after.
    """
    from mbct.model.certificate import certificate_of
    from mbct.model.file import ensemble_of, read_bytes
    from mbct.model.rules import rule_as_dict

    content = read_bytes(model)
    ensemble = ensemble_of(content, model)
    certificate = None if ensemble.intervals is None else certificate_of(content, model)
    if row is not None and explain is None:
        raise ParameterError(f"--row {row} belongs to --explain FILE: name the file whose row is to be explained")
    if explain is not None:
        _explain(ensemble, explain, row or 1, as_json=as_json)
        return
    if tree is not None:
        if tree > len(ensemble.trees):
            raise ParameterError(f"--tree {tree}: the model has {len(ensemble.trees)} trees")
        ensemble = ensemble.with_trees(ensemble.trees[tree - 1 : tree])
    if as_tree and as_json:
        raise ParameterError("--as-tree and --json exclude each other: trees are text, JSON is a list of rules")
    if as_tree or not (ensemble.trees or as_json):
        click.echo(ensemble.to_text())
        return
    found = sorted(ensemble.rules(), key=lambda rule: -rule.effect)[:top]
    if as_json:
        print_json([rule_as_dict(rule) for rule in found])
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDE
    certified = {} if certificate is None else certificate.lines_of_rules()
    for rule in found:
        click.echo(str(rule) if top is None else rule.shortened(width))
        if line := certified.get((rule.tree + (tree or 1) - 1, rule.node)):
            click.echo(f"  {line}")


def _explain(model: "CalibrationEnsemble", source: str, number: int, *, as_json: bool) -> None:
    from mbct.serving.explanation import explain

    explanation = explain(model, _row(source, number))
    answer(explanation, explanation.to_dict(), as_json=as_json)


def _row(source: str, number: int) -> dict[str, Any]:
    """The row that ``source`` is as JSON, or row ``number`` of the file that it names."""
    if source.lstrip().startswith("{"):
        try:
            row: dict[str, Any] = json.loads(source)
        except json.JSONDecodeError as error:
            raise DataError(f'--explain: the row is no JSON ({error}); write {{"column": value}}') from error
        return row
    from mbct.cli.sources import open_data

    with open_data(source) as data:
        found = data.relation.limit(1, number - 1).fetchall()
        if not found:
            raise ParameterError(f"--row {number}: {data.name} has {data.count():,} rows")
        return dict(zip(data.names, found[0], strict=True))
