"""How much each feature gains beside the score, on rows that are held out."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mbct.training.binned_rows import duplicates_in, split_cells
from mbct.training.boosting import BoostingOptions
from mbct.training.cells import Cells
from mbct.training.evidence import Gain, held_out_gain, identifying_time
from mbct.training.folds import BlockOptions
from mbct.training.tree_size import best_ensembles

QUICK = BoostingOptions(
    max_trees=100,
    rate=0.2,
    patience=10,
    feature_share=1.0,
    leaves=(15,),
    small_data=0,
    large_data=0,
    most_cells=500_000,
)
"""Growth by a feature or two needs no more."""
_FEW_CELLS = 20_000  # Above, smaller trees than the first are not tried: they took half the time for the same order


@dataclass(frozen=True)
class FeatureGains:
    """The gain of each feature that was evaluated, by its number, and the features that identify the time."""

    gains: dict[int, Gain]
    identifying_time: tuple[int, ...]


def feature_gains(
    cells: Cells,
    ordered: tuple[bool, ...],
    n_threads: int,
    seed: int = 0,
    on_feature: Callable[[int], None] = lambda _: None,
    block_options: BlockOptions | None = None,
) -> FeatureGains:
    """Gain of the score alone over the base, then of each other feature with the score over the score alone.

    Cells must be in canonical order, which is a random one. All features are evaluated on the same folds. Features that
    identify the time are not evaluated, as the trainer leaves them out, unless ``block_options`` keep all.
    """
    cells = cells.select(np.arange(min(len(cells), QUICK.most_cells)))
    options = replace(QUICK, seed=seed, short_ensemble=QUICK.short_ensemble if len(cells) <= _FEW_CELLS else 0)
    duplicates = duplicates_in(cells)
    cells = cells.per(duplicates.per_row)
    rows = split_cells(
        cells, ordered, (0,), options.n_folds, seed, atomic=not duplicates.uniform, block_options=block_options
    )
    identifying = identifying_time(replace(rows, usable=np.arange(len(ordered))))
    left_out = () if block_options is not None and block_options.keep_all else identifying
    alone = best_ensembles(rows, options, n_threads).held_out
    found = {0: held_out_gain(rows, rows.log_odds, alone)}
    on_feature(1)
    for j in range(1, len(ordered)):
        if j not in left_out:
            beside = replace(rows, usable=np.array([0, j]))
            found[j] = held_out_gain(rows, alone, best_ensembles(beside, options, n_threads).held_out)
        on_feature(1)
    return FeatureGains(found, identifying)
