import numpy as np
import pytest
from scipy.stats import ttest_1samp

from mbct.stats.paired_gain import paired_gain


def test_it_is_the_paired_test_of_the_rows() -> None:
    rng = np.random.default_rng(0)
    n = 5000
    old, new = rng.normal(size=n), rng.normal(size=n)
    label = (rng.random(n) < 1 / (1 + np.exp(-new))).astype(float)
    found = paired_gain(old, new, np.ones(n), label)
    by_row = (np.logaddexp(0, old) - label * old) - (np.logaddexp(0, new) - label * new)
    expected = ttest_1samp(by_row, 0.0, alternative="less")
    assert found.gain == pytest.approx(by_row.mean(), rel=1e-12)
    assert found.z == pytest.approx(expected.statistic, rel=1e-3)
    assert found.p_worse == pytest.approx(expected.pvalue, abs=1e-3)
    assert paired_gain(new, old, np.ones(n), label).p_worse < 1e-9


def test_joined_rows_count_one_by_one() -> None:
    old, new = np.array([0.3, -1.0]), np.array([0.5, -1.5])
    joined = paired_gain(old, new, np.array([3.0, 2.0]), np.array([2.0, 0.0]))
    apart = paired_gain(old[[0, 0, 0, 1, 1]], new[[0, 0, 0, 1, 1]], np.ones(5), np.array([1.0, 1.0, 0.0, 0.0, 0.0]))
    assert joined.gain == pytest.approx(apart.gain, rel=1e-12)
    assert joined.error == pytest.approx(apart.error, rel=1e-12)


def test_equal_predictions_are_neither_better_nor_worse() -> None:
    same = np.array([0.1, 0.2])
    found = paired_gain(same, same, np.ones(2), np.array([1.0, 0.0]))
    assert (found.gain, found.z, found.p_worse) == (0.0, 0.0, 0.5)
