import math

import numpy as np
import pytest

from mbct.stats.divisions import Bins, rows_as_bins
from mbct.stats.partition_error import (
    finer_partition_error,
    norm_of_errors,
    partition_error,
    prediction_ratio,
)


def test_pce_and_pud_by_hand():
    bins = Bins(np.array([10.0, 4.0, 0.0]), np.array([2.0, 3.0, 0.0]), np.array([3.0, 1.5, 0.0]))
    assert partition_error(bins) == pytest.approx([0.1, 0.375, 0.0])
    assert prediction_ratio(bins)[:2] == pytest.approx([1.5, 0.5])
    assert math.isnan(prediction_ratio(bins)[2])


def test_bfgpce_shows_what_pce_hides():
    p, y = np.full(8, 0.5), np.array([1.0, 1, 1, 1, 0, 0, 0, 0])
    rows = rows_as_bins(p, y, np.ones(8))
    whole = Bins(*(np.array([sums.sum()]) for sums in (rows.count, rows.label, rows.pred)))
    assert partition_error(whole)[0] == 0.0
    assert finer_partition_error(rows, 2) == 0.5
    assert finer_partition_error(rows, 1) == 0.0


def test_norms_grow_to_the_maximum():
    error, mass = np.array([0.1, 0.2, 0.9]), np.array([1.0, 3.0, 0.0])
    norms = [norm_of_errors(error, mass, p) for p in (1, 2, 8, math.inf)]
    assert norms[0] == pytest.approx(0.175)
    assert norms[1] == pytest.approx(math.sqrt((0.01 + 3 * 0.04) / 4))
    assert norms == sorted(norms)
    assert norms[-1] == 0.2
