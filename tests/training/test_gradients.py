import numpy as np
import pytest

from builders import biased_clicks
from mbct import MBCTCalibrator
from mbct.data.columns import encode, read_columns
from mbct.stats.probabilities import sigmoid
from mbct.training.cells import build_cells
from mbct.training.grower import move, newton_sums, with_sums


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


def test_sums_are_those_of_the_rows_before_each_tree():
    data = biased_clicks(3, 8_000)
    model = MBCTCalibrator("p", features=["site", "age", "device"]).fit(data.frame, data.y).model_
    codes = encode(read_columns(data.frame), model.bins, data.p)
    cells = build_cells(codes, data.p, data.y, None, model.bins, "score")
    log_odds = cells.sums.logit / cells.sums.count
    for tree in with_sums(cells, model.trees[:3]):
        assert tree.count[0] == pytest.approx(8_000)
        assert tree.label[0] == pytest.approx(data.y.sum())
        assert tree.pred[0] == pytest.approx(np.sum(cells.sums.count * sigmoid(log_odds)), rel=1e-8)
        node = tree.apply(cells.codes)
        leaf = int(tree.leaves[0])
        assert tree.label[leaf] == pytest.approx(np.sum(cells.sums.label[node == leaf]))
        log_odds = log_odds + tree.leaf_value[node]
