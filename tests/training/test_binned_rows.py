import numpy as np
import pytest

from mbct.data.columns import read_columns
from mbct.data.memory import encode, fit_bins
from mbct.training.binned_rows import BinnedRows, split_cells
from mbct.training.binning import BinningOptions
from mbct.training.cells import build_cells
from mbct.training.evidence import held_out_gain


def test_cells_count_row_by_row():
    rng = np.random.default_rng(1)
    n = 2_000
    frame = {"p": rng.choice([0.1, 0.3], n), "c": rng.choice(["a", "b"], n)}
    y = (rng.random(n) < frame["p"]).astype(float)
    columns = read_columns(frame)
    bins = fit_bins(columns, "p", ["c"], frame["p"], y, None, "auto", BinningOptions())
    codes = encode(columns, bins, frame["p"])
    gains = []
    for level in ("score", "cell"):
        cells = build_cells(codes, frame["p"], y, None, bins, level)
        rows = split_cells(cells, tuple(f.ordered for f in bins), (0, 1), 5, 0)
        expected = -np.sum(y * np.log(frame["p"]) + (1.0 - y) * np.log1p(-frame["p"]))
        assert rows.loss(rows.all_rows, rows.log_odds) == pytest.approx(expected, rel=1e-9)
        found = held_out_gain(rows, rows.log_odds, rows.log_odds + 0.1)
        gains.append((found.value, found.standard_error))
    assert gains[0] == pytest.approx(gains[1], rel=1e-9)


def test_every_row_is_evaluated_at_the_log_odds_of_the_fold_that_holds_it_out():
    rng = np.random.default_rng(2)
    fold = rng.integers(0, 3, 50).astype(np.uint8)
    label = (rng.random(50) < 0.4).astype(float)
    nothing = np.empty(0, dtype=np.int64)
    codes = np.zeros((50, 1), dtype=np.uint8)
    rows = BinnedRows(codes, np.zeros(50), np.ones(50), label, fold, np.array([0, 1]), nothing.astype(bool), nothing)
    log_odds = rng.normal(size=(3, 50))
    own = log_odds[fold, np.arange(50)]
    assert rows.held_out_loss(log_odds) == pytest.approx(np.mean(np.logaddexp(0.0, own) - label * own))
    for k in range(3):
        assert sorted([*rows.held_out_rows(k), *rows.train_rows(k)]) == rows.all_rows.tolist()
        assert set(fold[rows.held_out_rows(k)]) == {k}
