import numpy as np
import pytest

from builders import random_model
from mbct.errors import DataError
from mbct.stats.probabilities import logit, sigmoid
from mbct.store.refresh import compare_on_cells, log_odds_of_cells, metrics_of_cells
from mbct.training.cells import build_cells


def _rows(model, n=400):
    rng = np.random.default_rng(3)
    codes = np.column_stack([rng.integers(0, k, n) for k in model.bins.n_codes]).astype(model.bins.code_type)
    y_prob = rng.uniform(0.01, 0.6, n)
    y_true = (rng.random(n) < y_prob).astype(float)
    return codes, y_prob, y_true


@pytest.mark.parametrize("link", ["odds", "linear"])
def test_cells_of_one_score_are_evaluated_as_their_rows(link: str) -> None:
    model = random_model(1, link)
    codes, y_prob, y_true = _rows(model)
    cells = build_cells(codes, y_prob, y_true, None, model.bins, "row")
    calibrated = np.clip(model.calibrate_codes(codes, y_prob), 1e-9, 1 - 1e-9)
    found = metrics_of_cells(log_odds_of_cells(model, cells), cells)
    loss = -np.mean(y_true * np.log(calibrated) + (1 - y_true) * np.log1p(-calibrated))
    assert found.log_loss == pytest.approx(loss, rel=1e-9)
    assert found.prediction_ratio == pytest.approx(calibrated.sum() / y_true.sum(), rel=1e-6)
    gain = compare_on_cells(log_odds_of_cells(None, cells), log_odds_of_cells(model, cells), cells)
    by_row = -(y_true * np.log(y_prob) + (1 - y_true) * np.log1p(-y_prob))
    by_row += y_true * np.log(calibrated) + (1 - y_true) * np.log1p(-calibrated)
    assert gain.gain == pytest.approx(by_row.mean(), rel=1e-7)
    assert gain.error == pytest.approx(by_row.std() / np.sqrt(len(by_row)), rel=1e-7)


def test_a_model_without_trees_changes_nothing() -> None:
    model = random_model(1).with_trees(())
    codes, y_prob, y_true = _rows(model)
    cells = build_cells(codes, y_prob, y_true, None, model.bins, "row")
    np.testing.assert_allclose(log_odds_of_cells(model, cells), logit(y_prob), rtol=1e-12)


def test_cells_of_other_bins_are_refused() -> None:
    model, other = random_model(1), random_model(2)
    cells = build_cells(*_rows(model), None, model.bins, "cell")
    with pytest.raises(DataError, match=f"fitted on bins {other.bins.fingerprint}"):
        log_odds_of_cells(other, cells)


def test_the_error_of_a_comparison_is_that_of_days() -> None:
    model = random_model(1)
    rng = np.random.default_rng(0)
    codes, y_prob, _ = _rows(model, 4000)
    day = np.repeat(np.arange(10), 400)
    shock = np.repeat(rng.normal(0.0, 1.0, 10), 400)
    y_true = (rng.random(4000) < sigmoid(logit(y_prob) + shock)).astype(float)
    cells = build_cells(codes, y_prob, y_true, None, model.bins, "row")
    old, new = logit(y_prob), logit(y_prob) + 0.3
    by_row = compare_on_cells(old, new, cells)
    by_day = compare_on_cells(old, new, cells, day)
    loss = -(y_true * np.log(y_prob) + (1 - y_true) * np.log1p(-y_prob))
    moved = sigmoid(new)
    gain = loss + y_true * np.log(moved) + (1 - y_true) * np.log1p(-moved)
    means = gain.reshape(10, 400).mean(axis=1)
    assert by_day.gain == by_row.gain == pytest.approx(means.mean())
    assert by_day.error == pytest.approx(means.std(ddof=1) / np.sqrt(10), rel=1e-6)
    assert by_day.error > 3 * by_row.error
    assert compare_on_cells(old, new, cells, np.zeros(4000, dtype=np.int64)) == by_row
