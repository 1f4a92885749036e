"""Shuffled views: the random orders of rows that MVCE divides."""

import numpy as np

from mbct.stats.divisions import Bins


def shuffled_view(rows: Bins, rng: np.random.Generator) -> Bins:
    """The rows in random order: a uniform-mass division of it is one view of MVCE."""
    order = rng.permutation(len(rows))
    return Bins(rows.count[order], rows.label[order], rows.pred[order])
