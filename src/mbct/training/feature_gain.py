"""Which features carry miscalibration: what each brings on left-out rows, beside the score and alone."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mbct.training.binned_rows import Gain, copies_in, held_out_gain, parts_of
from mbct.training.boosting import best_ensembles
from mbct.training.cells import Cells
from mbct.training.options import HonestOptions

QUICK = HonestOptions(
    max_trees=100, rate=0.2, patience=10, feature_share=1.0, leaves=(15,), small_data=0, most_cells=500_000
)
"""Growth by a feature or two needs no more."""


def gains(
    cells: Cells,
    ordered: tuple[bool, ...],
    n_threads: int,
    seed: int = 0,
    on_feature: Callable[[int], None] = lambda _: None,
) -> list[Gain]:
    """Gain of the score alone over the base, then of each other feature with the score over the score alone.

    Cells must be in canonical order, which is a random one. All features are judged on the same folds.
    """
    options = replace(QUICK, seed=seed)
    cells = cells.select(np.arange(min(len(cells), options.most_cells)))
    copies = copies_in(cells)
    cells = cells.per(copies.per_row)
    parts = parts_of(cells, ordered, (0,), options.n_folds, seed, whole=not copies.alike)
    alone = best_ensembles(parts, options, n_threads).best.held_out
    found = [held_out_gain(parts, parts.log_odds, alone)]
    on_feature(1)
    for j in range(1, len(ordered)):
        beside = replace(parts, usable=np.array([0, j]))
        together = best_ensembles(beside, options, n_threads).best.held_out
        found.append(held_out_gain(parts, alone, together))
        on_feature(1)
    return found
