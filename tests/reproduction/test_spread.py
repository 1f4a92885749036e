"""Intervals of means of repetitions."""

import numpy as np
import pytest
from scipy import stats

from reproduction.spread import bootstrap_spread, resplit_spread, spread

VALUES = [0.1, 0.3, 0.2, 0.4]


def test_independent_repetitions_have_students_interval():
    found = spread(VALUES)
    low, high = stats.t.interval(0.95, 3, np.mean(VALUES), stats.sem(VALUES))
    assert (found.mean - found.half_width, found.mean + found.half_width) == pytest.approx((low, high))
    assert found.is_sure == (low > 0)


def test_splits_that_share_rows_have_a_wider_one_that_does_not_vanish():
    assert resplit_spread(VALUES, 0.0).half_width == pytest.approx(spread(VALUES).half_width)
    assert resplit_spread(VALUES, 0.25).half_width == pytest.approx(spread(VALUES).half_width * 2**0.5)


def test_a_bootstrap_keeps_the_value_and_takes_the_deviation():
    found = bootstrap_spread(0.25, VALUES)
    assert (found.mean, found.n) == (0.25, 4)
    assert found.half_width == pytest.approx(stats.t.ppf(0.975, 3) * np.std(VALUES, ddof=1))
    assert bootstrap_spread(0.25, [0.1]).text(2) == "0.25"


def test_one_repetition_has_no_interval():
    found = spread([0.5])
    assert np.isnan(found.half_width)
    assert not found.is_sure
    assert found.text(1) == "0.5"
