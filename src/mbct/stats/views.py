"""Views: the orders in which a set of rows may be divided."""

import numpy as np
import numpy.typing as npt

from mbct.stats.divisions import Bins


def shuffled_view(rows: Bins, rng: np.random.Generator) -> Bins:
    """The rows in random order: a uniform-mass division of it is one view of MVCE."""
    return reordered(rows, rng.permutation(len(rows)))


def sorted_view(rows: Bins) -> Bins:
    """The rows by ascending prediction; rows of equal prediction keep the order given."""
    return reordered(rows, np.argsort(rows.pred / rows.count, kind="stable"))


def reordered(rows: Bins, order: npt.NDArray[np.int64]) -> Bins:
    """The rows in the order given."""
    return Bins(rows.count[order], rows.label[order], rows.pred[order])
