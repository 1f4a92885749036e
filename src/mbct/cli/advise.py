"""``mbct advise``: which columns carry miscalibration."""

from typing import TYPE_CHECKING, cast

import click

from mbct.cli.options import RowOptions, features_options, in_blocks, labelled, labelled_data
from mbct.cli.shell import command, print_json

if TYPE_CHECKING:
    from mbct.data.blocks import BlockSize

EXAMPLES = (
    "mbct advise clicks.parquet --label click --score pctr",
    "mbct advise clicks.parquet --json | jq -r '.columns[] | select(.helps) | .column'",
)


@command(examples=EXAMPLES)
@labelled
@in_blocks
@features_options
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of the folds.")
def advise(rows: RowOptions, features: tuple[str, ...], exclude: tuple[str, ...], seed: int, as_json: bool) -> None:
    """Say which columns carry miscalibration.

    Each column of DATA is tested by itself: how much the held-out log loss falls when predictions are corrected by it
    beside the score.
    """
    with labelled_data(rows, features, exclude) as (opened, roles):
        used = opened.table(roles.columns)
    from mbct.evaluation.feature_ranking import rank_features

    advice = rank_features(
        used,
        roles.label,
        score_column=roles.score,
        sample_weight=roles.weight,
        time=roles.time,
        groups=roles.group,
        block=cast("BlockSize", rows.block),
        random_state=seed,
    )
    if as_json:
        print_json({**roles.to_dict(), **advice.to_dict()})
    else:
        click.echo(str(advice))
