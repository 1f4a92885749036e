"""Cells spread over folds: unit by unit where they hold many rows, whole where they hold copies of one."""

import numpy as np
import pytest

from mbct.cells.thin import half_of, thin
from mbct.stats.copies import Copies

ONE = Copies(1.0)


def spread(count, label, copies=ONE):
    return thin(np.asarray(count, dtype=float), np.asarray(label, dtype=float), copies, n_folds=5, seed=3)


@pytest.mark.parametrize("weight", [0.3, 1.0, 1.5, 1.99])
def test_a_row_of_weight_below_two_is_in_one_place(weight):
    label = np.where(np.arange(500) % 2 == 0, weight, 0.0)
    parts = spread(np.full(500, weight), label)
    assert np.array_equal(parts.cell, np.arange(500))
    for i in range(500):
        assert half_of(weight, np.uint64(7), i, 0) in (0.0, weight)


def test_cells_of_copies_stay_whole_and_their_mass_counts_rows():
    parts = spread(np.full(500, 6.0), np.where(np.arange(500) % 3 == 0, 6.0, 0.0), copies=Copies(4.0, alike=False))
    assert np.array_equal(parts.cell, np.arange(500))
    assert np.all(parts.count == 1.5)
    assert set(parts.label.tolist()) == {0.0, 1.5}
    assert np.bincount(parts.fold) == pytest.approx(100, rel=0.3)


def test_rows_that_all_weigh_the_same_are_spread_as_if_they_weighed_one():
    rng = np.random.default_rng(1)
    count = rng.integers(1, 30, 300).astype(float)
    label = np.floor(count * rng.random(300))
    one, heavy = spread(count, label), spread(2.5 * count, 2.5 * label, Copies(2.5))
    assert all(np.array_equal(getattr(one, name), getattr(heavy, name)) for name in ("cell", "fold", "count", "label"))
