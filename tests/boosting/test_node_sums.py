import numpy as np
import pytest

from builders import biased_clicks
from mbct import MBCTCalibrator
from mbct.binning.code_offsets import code_offsets
from mbct.boosting.node_sums import stops, with_sums
from mbct.cells import build_cells
from mbct.engines.columns import read_columns
from mbct.engines.memory import encode
from mbct.stats.logodds import sigmoid


def test_sums_are_those_of_the_rows_before_each_tree():
    data = biased_clicks(3, 8_000)
    model = MBCTCalibrator("p", features=["site", "age", "device"]).fit(data.frame, data.y).model_
    codes = encode(read_columns(data.frame), model.bins, data.p)
    cells = build_cells(codes, data.p, data.y, None, model.bins, "score")
    log_odds = cells.sums.logit / cells.sums.count
    offset = code_offsets(cells.n_codes)
    for tree in with_sums(cells, model.trees[:3]):
        assert tree.count[0] == pytest.approx(8_000)
        assert tree.label[0] == pytest.approx(data.y.sum())
        assert tree.pred[0] == pytest.approx(np.sum(cells.sums.count * sigmoid(log_odds)), rel=1e-8)
        node = stops(tree, cells.codes, offset)
        assert np.array_equal(node, tree.apply(cells.codes))
        leaf = int(tree.leaves[0])
        assert tree.label[leaf] == pytest.approx(np.sum(cells.sums.label[node == leaf]))
        log_odds = log_odds + tree.step[node]
