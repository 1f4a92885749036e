"""``mbct report``: one HTML page about a model on labelled rows."""

import shlex
import sys

import click

from mbct.cli.options import labelled, labelled_data, load_calibrator, model_argument, output_option
from mbct.cli.shell import command, print_json

EXAMPLES = (
    "mbct report model.json clicks.parquet -o report.html",
    "mbct report model.json clicks.csv --label click --title 'Clicks of May' -o report.html",
)


@command(examples=EXAMPLES)
@model_argument
@labelled
@click.option("--title", help="Heading of the page.")
@output_option("HTML file to write.")
def report(
    model: str,
    data: str | None,
    label: str | None,
    positive: str | None,
    score: str | None,
    weight: str | None,
    title: str | None,
    output: str,
    sql: str | None,
    as_json: bool,
) -> None:
    """Write a page with charts, trees and a verdict.

    One file that opens offline. Give it rows that the model was not fitted on.
    """
    from mbct.report import write_report

    calibrator = load_calibrator(model)
    with labelled_data(data, sql, label, score or calibrator.score_column_, weight, positive=positive) as (
        opened,
        roles,
    ):
        table = opened.table()
    summary = write_report(
        calibrator,
        table,
        roles.label,
        output,
        score_column=roles.score,
        sample_weight=roles.weight,
        title=title,
        command=shlex.join(["mbct", *sys.argv[1:]]),
    )
    if not as_json:
        click.echo(str(summary))
        return
    plain = {name: value for name, value in vars(summary).items() if name != "exclusions"}
    excluded = [vars(each) for each in summary.exclusions]
    print_json({**plain, "path": str(summary.path), "exclusions": excluded})
