"""``mbct report``: one HTML page about a model on labelled rows."""

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from mbct.cli.many_classes import calibrates_many, with_classes
from mbct.cli.options import (
    in_blocks,
    labelled,
    labelled_data,
    load_calibrator,
    model_argument,
    names_option,
    output_option,
)
from mbct.cli.roles import RowOptions, as_binary
from mbct.cli.shell import answer, command
from mbct.cli.sources import Data, open_data
from mbct.errors import ParameterError

EXAMPLES = (
    "mbct report model.json clicks.parquet -o report.html",
    "mbct report classes.json animals.parquet --label animal -o report.html",
    "mbct report model.json clicks.csv --label click --title 'Clicks of May' -o report.html",
)


@command(examples=EXAMPLES)
@model_argument
@labelled
@in_blocks
@names_option("--by", "Columns whose values are segments; the model's features if not given.")
@click.option(
    "--compare-with", metavar="DATA", type=click.Path(), help="Other rows to show side by side, as of last month."
)
@click.option("--title", help="Heading of the page.")
@output_option("HTML file to write.")
def report(
    model: str,
    rows: RowOptions,
    by: tuple[str, ...],
    compare_with: str | None,
    title: str | None,
    output: str,
    as_json: bool,
) -> None:
    """Write a page with charts, trees and a verdict.

    One file that opens offline. Give it rows that the model was not fitted on.
    """
    from mbct.report import write_report

    if Path(output).suffix.lower() not in (".html", ".htm"):  # before any row is read
        raise ParameterError(f"{output} must end in .html: a report is a page, which a browser prints as PDF")

    calibrator = load_calibrator(model, many_classes=True)
    many = calibrates_many(calibrator)

    def table_of(data: Data, label: str) -> Any:
        return (with_classes(data, label, calibrator) if many else as_binary(data, label, rows.positive)).table()

    with labelled_data(rows, score=calibrator.score_column_, many_classes=True) as (opened, roles):
        opened.require(by)
        table = table_of(opened, roles.label) if many else opened.table()
    beside = None
    if compare_with is not None:
        with open_data(compare_with) as others:
            others.require([roles.label, *(roles.scores or [roles.score])])
            beside = (Path(compare_with).name, table_of(others, roles.label))
    summary = write_report(
        calibrator,
        table,
        roles.label,
        output,
        score_column=None if many else roles.score,
        sample_weight=roles.weight,
        by=by or None,
        time=roles.time,
        groups=roles.group,
        block=rows.block,
        compare_with=beside,
        title=title,
        command=shlex.join(["mbct", *sys.argv[1:]]),
    )
    answer(summary, {**asdict(summary), "path": str(summary.path)}, as_json=as_json)
