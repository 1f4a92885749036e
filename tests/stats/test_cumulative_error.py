import math

import numpy as np
import pytest

from mbct.stats.divisions import atoms_by_prediction
from mbct.stats.expected_error import (
    brownian_range_tail,
    cumulative_error,
    cumulative_error_by_group,
    cumulative_scale,
    in_sigmas,
)


def test_is_the_largest_interval_error():
    rng = np.random.default_rng(0)
    p = rng.random(40)
    y = (rng.random(40) < 0.5).astype(float)
    d = (y - p)[np.argsort(p)]
    largest = max(abs(d[i:j].sum()) for i in range(40) for j in range(i, 41)) / 40
    assert cumulative_error(atoms_by_prediction(p, y, np.ones(40))) == pytest.approx(largest)


def test_tied_predictions_are_one_step():
    p, y = np.full(10, 0.5), np.tile([0.0, 1.0], 5)
    assert cumulative_error(atoms_by_prediction(p, y, np.ones(10))) == 0.0


def test_tail_is_that_of_the_range_of_a_random_walk():
    rng = np.random.default_rng(1)
    path = np.cumsum(rng.choice([-1.0, 1.0], size=(4000, 4000)), axis=1) / math.sqrt(4000)
    reach = np.maximum(path.max(axis=1), 0) - np.minimum(path.min(axis=1), 0)
    for x in (1.2, 1.6, 2.2):
        assert brownian_range_tail(x) == pytest.approx(np.mean(reach >= x), abs=0.03)


def test_tail_at_its_mean_and_ends():
    # E[R] = √(8/π) = ∫ P(R ≥ x) dx: exercises both series and the place where they meet.
    x = np.linspace(0.0, 9.0, 20_001)
    tail = [brownian_range_tail(v) for v in x]
    assert np.trapezoid(tail, x) == pytest.approx(math.sqrt(8 / math.pi), rel=1e-7)
    assert brownian_range_tail(0.0) == 1.0
    assert brownian_range_tail(math.inf) == 0.0
    assert np.all(np.diff(tail) <= 1e-12)


def test_p_values_are_uniform_where_predictions_are_right():
    rng = np.random.default_rng(2)
    p_values = []
    for _ in range(400):
        p = rng.random(3000)
        y = (rng.random(3000) < p).astype(float)
        error = cumulative_error(atoms_by_prediction(p, y, np.ones(3000)))
        p_values.append(brownian_range_tail(in_sigmas(error, cumulative_scale(p, np.ones(3000)))))
    assert np.mean(np.array(p_values) < 0.05) == pytest.approx(0.05, abs=0.035)
    assert np.mean(np.array(p_values) < 0.5) == pytest.approx(0.5, abs=0.1)


def test_by_group_equals_one_by_one():
    rng = np.random.default_rng(3)
    p, w = rng.integers(0, 20, 500) / 20, rng.uniform(0.5, 2, 500)
    y, group = (rng.random(500) < p).astype(float), rng.integers(0, 5, 500)
    error, sigma = cumulative_error_by_group(p, y, w, group, 7)
    for g in range(5):
        m = group == g
        assert error[g] == pytest.approx(cumulative_error(atoms_by_prediction(p[m], y[m], w[m])))
        assert sigma[g] == pytest.approx(cumulative_scale(p[m], w[m]))
    assert error[5:].tolist() == sigma[5:].tolist() == [0.0, 0.0]


def test_certain_predictions_leave_no_room_for_chance():
    assert in_sigmas(0.0, 0.0) == 0.0
    assert in_sigmas(0.1, 0.0) == math.inf
