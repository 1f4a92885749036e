"""``mbct advise``: which columns carry miscalibration."""

from mbct.cli.options import features_options, in_blocks, labelled, labelled_data, seed_option
from mbct.cli.roles import RowOptions
from mbct.cli.shell import answer, command

EXAMPLES = (
    "mbct advise clicks.parquet --label click --score pctr",
    "mbct advise clicks.parquet --json | jq -r '.columns[] | select(.helps) | .column'",
)


@command(examples=EXAMPLES)
@labelled
@in_blocks
@features_options
@seed_option("Seed of the folds.")
def advise(rows: RowOptions, seed: int, as_json: bool) -> None:
    """Say which columns carry miscalibration.

    Each column of DATA is tested by itself: how much the held-out log loss falls when predictions are corrected by it
    beside the score.
    """
    with labelled_data(rows) as (opened, roles):
        used = opened.table(roles.columns)
    from mbct.evaluation.feature_ranking import rank_features

    advice = rank_features(
        used,
        roles.label,
        score_column=roles.score,
        features=roles.features if rows.features else None,
        sample_weight=roles.weight,
        time=roles.time,
        groups=roles.group,
        block=rows.block,
        random_state=seed,
    )
    answer(advice, {**roles.to_dict(), **advice.to_dict()}, as_json=as_json)
