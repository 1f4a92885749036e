import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbct.calibrators.score_only.score_map import LinearMap, StepMap


def test_an_edge_belongs_to_the_bin_below():
    assert StepMap(np.array([0.5]), np.array([0.1, 0.9]))(np.array([0.5, 0.5000001])).tolist() == [0.1, 0.9]


def test_lines_agree_with_numpy():
    rng = np.random.default_rng(0)
    knots, values, x = np.sort(rng.uniform(size=20)), np.sort(rng.uniform(size=20)), rng.uniform(-0.1, 1.1, 500)
    np.testing.assert_allclose(LinearMap(knots, values)(x), np.interp(x, knots, values), atol=1e-14)


def test_knots_a_hair_apart_do_not_overflow():
    line = LinearMap(np.array([0.0, 1e-300, 1.0]), np.array([0.0, 0.5, 1.0]))
    assert line(np.array([0.0, 5e-301, 1e-300])).tolist() == [0.0, pytest.approx(0.25), 0.5]


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=12, unique_by=lambda t: t[0]),
    st.lists(st.floats(0, 1), min_size=2, max_size=40),
)
def test_lines_between_rising_knots_never_fall(points, scores):
    knots, values = (np.sort(np.array(part)) for part in zip(*points, strict=True))
    x = np.sort(np.concatenate([scores, knots, np.nextafter(knots, 0.0), np.nextafter(knots, 1.0)]))
    assert np.all(np.diff(LinearMap(knots, values)(np.clip(x, 0, 1))) >= 0)
