import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import false_discovery_control, ttest_1samp

from mbct.stats.testing import benjamini_hochberg, holm, paired_gain

p_values = st.lists(st.floats(0, 1), min_size=1, max_size=20).map(np.array)


@given(p_values)
@settings(deadline=None)
def test_benjamini_hochberg_equals_scipy(p):
    assert benjamini_hochberg(p) == pytest.approx(false_discovery_control(p))


@given(p_values)
@settings(deadline=None)
def test_holm_lies_between_plain_and_bonferroni_and_keeps_the_order(p):
    corrected = holm(p)
    assert np.all(corrected >= p)
    assert np.all(corrected <= np.minimum(p * len(p), 1.0) + 1e-15)
    assert corrected.min() == pytest.approx(min(p.min() * len(p), 1.0))
    assert np.all(np.diff(corrected[np.argsort(p)]) >= 0)


def test_no_test_needs_no_correction():
    assert len(holm(np.empty(0))) == len(benjamini_hochberg(np.empty(0))) == 0


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
