import numpy as np
import pytest

from mbct.boosting.newton import move, newton_sums


def test_sums_are_the_derivatives_of_the_log_loss():
    rng = np.random.default_rng(0)
    n, n_groups = 500, 6
    group = rng.integers(0, n_groups, n).astype(np.uint16)
    log_odds, count = rng.normal(0.0, 3.0, n), rng.integers(1, 5, n).astype(float)
    label = np.floor(count * rng.random(n))
    rows = np.flatnonzero(rng.random(n) < 0.8).astype(np.int32)
    g, h = newton_sums(rows, group, log_odds, count, label, n_groups)

    def gain(step):
        z = log_odds[rows] + step * (group[rows] == 2)
        return np.sum(label[rows] * z - count[rows] * np.logaddexp(0.0, z))

    e = 1e-4
    assert g[2] == pytest.approx((gain(e) - gain(-e)) / (2 * e), rel=1e-6)
    assert h[2] == pytest.approx((2 * gain(0.0) - gain(e) - gain(-e)) / e**2, rel=1e-3)


def test_rows_move_with_their_group():
    log_odds = np.zeros(4)
    move(log_odds, np.array([0.5, -1.0]), np.array([0, 1, 1, 0], dtype=np.int32))
    assert log_odds.tolist() == [0.5, -1.0, -1.0, 0.5]
