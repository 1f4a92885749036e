"""``mbct compare``: which calibration method is best on these rows, held out."""

from dataclasses import asdict
from typing import Any

import click

from mbct.cli.many_classes import classes_of
from mbct.cli.options import features_options, in_blocks, labelled, labelled_data, names_option, seed_option
from mbct.cli.roles import RowOptions
from mbct.cli.shell import answer, command

EXAMPLES = (
    "mbct compare clicks.parquet --label click --score pctr",
    "mbct compare clicks.parquet --methods mbct,isotonic,platt --folds 3",
    "mbct compare animals.parquet --label animal --score 'p_*'",
    "mbct compare flights.parquet --time date --block week",
    "mbct compare clicks.parquet --json | jq -r .recommendation",
)


@command(examples=EXAMPLES)
@labelled
@in_blocks
@features_options
@names_option("--methods", "Methods to compare; all that need no setting if not given.")
@click.option("--folds", default=5, show_default=True, type=click.IntRange(min=2), help="Parts for cross-validation.")
@seed_option("Seed of the folds.")
def compare(rows: RowOptions, methods: tuple[str, ...], folds: int, seed: int, as_json: bool) -> None:
    """Say which calibration method to take.

    Every method is fitted on the same folds of DATA and evaluated on the rows held out.
    """
    with labelled_data(rows, many_classes=True) as (opened, roles):
        classes = classes_of(opened, roles, rows.score) if roles.scores else []
        used = (opened.with_text(roles.label) if roles.scores else opened).table(roles.columns)
    options: Any = {"time": roles.time, "groups": roles.group, "block": rows.block, "sample_weight": roles.weight}
    options |= {"cv": folds, "random_state": seed}
    if roles.scores:
        from mbct.evaluation.compare_classes import METHODS, compare_classes

        options |= {"score_column": roles.scores, "classes": classes}
        result = compare_classes(used, roles.label, methods=methods or METHODS, **options)
    else:
        from mbct.evaluation.compare import compare as compare_methods

        result = compare_methods(used, roles.label, score_column=roles.score, methods=methods or None, **options)
    best = {"best": result.best.name, "recommendation": result.recommendation}
    answer(result, {**roles.to_dict(), **asdict(result), **best}, as_json=as_json)
