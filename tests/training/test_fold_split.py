"""Cells spread over folds: row by row where they hold many, undivided where each is one row."""

import numpy as np
import pytest

from mbct.stats.random_stream import half_of
from mbct.training.folds import split_into_folds


def spread(count, label, **how):
    return split_into_folds(np.asarray(count, dtype=float), np.asarray(label, dtype=float), n_folds=5, seed=3, **how)


@pytest.mark.parametrize("weight", [0.3, 1.0, 1.5, 1.99])
def test_a_row_of_weight_below_two_is_in_one_place(weight):
    label = np.where(np.arange(500) % 2 == 0, weight, 0.0)
    parts = spread(np.full(500, weight), label)
    assert np.array_equal(parts.cell, np.arange(500))
    for i in range(500):
        assert half_of(weight, np.uint64(7), i, 0) in (0.0, weight)


def test_whole_cells_are_in_one_place():
    count = np.full(500, 6.0)
    parts = spread(count, np.where(np.arange(500) % 3 == 0, 6.0, 0.0), atomic=True)
    assert np.array_equal(parts.cell, np.arange(500))
    assert np.array_equal(parts.count, count)
    assert np.bincount(parts.fold) == pytest.approx(100, rel=0.3)
