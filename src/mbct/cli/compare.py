"""``mbct compare``: which calibration method is best on these rows, held out."""

from dataclasses import asdict
from typing import TYPE_CHECKING, cast

import click

from mbct.cli.many_classes import classes_of
from mbct.cli.options import RowOptions, features_options, in_blocks, labelled, labelled_data, names_option
from mbct.cli.shell import command, print_json

if TYPE_CHECKING:
    from mbct.data.blocks import BlockSize

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
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of the folds.")
def compare(
    rows: RowOptions,
    features: tuple[str, ...],
    exclude: tuple[str, ...],
    methods: tuple[str, ...],
    folds: int,
    seed: int,
    as_json: bool,
) -> None:
    """Say which calibration method to take.

    Every method is fitted on the same folds of DATA and evaluated on the rows held out.
    """
    with labelled_data(rows, features, exclude, many_classes=True) as (opened, roles):
        classes = classes_of(opened, roles, rows.score) if roles.scores else []
        used = (opened.with_text(roles.label) if roles.scores else opened).table(roles.columns)
    if roles.scores:
        from mbct.evaluation.compare_classes import METHODS, compare_classes

        found = compare_classes(
            used,
            roles.label,
            score_column=roles.scores,
            classes=classes,
            methods=methods or METHODS,
            cv=folds,
            time=roles.time,
            groups=roles.group,
            block=cast("BlockSize", rows.block),
            sample_weight=roles.weight,
            random_state=seed,
        )
        if as_json:
            table = {name: list(values) for name, values in found.table.columns}
            print_json({**roles.to_dict(), **table, "best": found.best, "recommendation": found.recommendation})
        else:
            click.echo(str(found))
        return
    from mbct.evaluation.compare import compare as compare_methods

    result = compare_methods(
        used,
        roles.label,
        score_column=roles.score,
        methods=methods or None,
        cv=folds,
        time=roles.time,
        groups=roles.group,
        block=cast("BlockSize", rows.block),
        sample_weight=roles.weight,
        random_state=seed,
    )
    if as_json:
        best = {"best": result.best.name, "recommendation": result.recommendation}
        print_json({**roles.to_dict(), **asdict(result), **best})
    else:
        click.echo(str(result))
