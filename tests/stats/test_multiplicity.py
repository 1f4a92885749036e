import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from mbct.stats.multiplicity import benjamini_hochberg, holm

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
