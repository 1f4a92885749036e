"""Which attempts are taken, and what each feature gains on held-out rows."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from builders import biased_clicks
from mbct import MBCTCalibrator, load_model
from mbct.stats.probabilities import sigmoid
from mbct.training.binned_rows import BinnedRows
from mbct.training.tree_size import Ensembles, _best_or_mean


@pytest.fixture(scope="module", params=[None, "day"])
def fitted(request):
    frame = biased_clicks(3, 20_000).frame
    frame["noise"] = np.random.default_rng(5).integers(0, 50, len(frame))
    days = None if request.param is None else np.arange(len(frame)) * 40 // len(frame)
    return MBCTCalibrator("p", max_trees=80).fit(frame, "y", time=days)


def test_gains_of_features_add_up_to_the_held_out_gain(fitted):
    assert sum(fitted.held_out_gain_by_feature_.values()) == pytest.approx(fitted.held_out_gain_, rel=0.1)


def test_importance_is_the_share_of_the_held_out_gain(fitted):
    gains, importances = fitted.held_out_gain_by_feature_, fitted.feature_importances_
    share = dict(zip(fitted.feature_names_in_, importances, strict=True))
    assert importances.sum() == pytest.approx(1.0)
    assert share["device"] / share["night"] == pytest.approx(gains["device"] / gains["night"])
    assert sorted(share.keys() - {"p"}, key=share.get)[-2:] == ["night", "device"]
    assert share["noise"] < 0.05
    assert "shares of the held-out gain" in fitted._repr_html_()


def test_gains_of_features_are_kept_in_the_file(fitted, tmp_path):
    fitted.save(tmp_path / "model.json")
    loaded = load_model(tmp_path / "model.json")
    assert loaded.held_out_gain_by_feature_ == fitted.held_out_gain_by_feature_
    document = json.loads((tmp_path / "model.json").read_text())
    older = tmp_path / "older.json"
    older.write_text(json.dumps(_without(document, "held_out_gain_by_feature")))
    assert load_model(older).held_out_gain_by_feature_ is None
    assert load_model(older).feature_importances_.sum() == pytest.approx(1.0)


def _without(document, name):
    if isinstance(document, dict):
        return {key: _without(value, name) for key, value in document.items() if key != name}
    return document


def attempt(held_out, rows):
    """What was grown, by its held-out log-odds."""
    held_out = np.asarray(held_out, dtype=float)
    loss = rows.loss(rows.evaluated_rows, held_out) / rows.evaluated_weight
    return SimpleNamespace(held_out=held_out, loss=loss, n_trees=10)


def test_the_mean_of_two_attempts_is_taken_where_it_is_ahead_by_a_standard_error():
    n, rng = 1_000, np.random.default_rng(2)
    codes, truth, error = np.zeros((n, 1), dtype=np.uint8), rng.normal(size=n), rng.normal(0.0, 0.5, n)
    fold, offset, features = (np.arange(n) % 5).astype(np.uint8), np.array([0, 3]), (np.array([True]), np.array([0]))
    rows = BinnedRows(codes, np.zeros(n), np.ones(n), sigmoid(truth), fold, offset, *features)
    near, opposite, alike = (attempt(truth + e, rows) for e in (error, -1.1 * error, 1.1 * error))
    assert _best_or_mean([near, opposite], rows) == (near, opposite)
    assert _best_or_mean([alike, near], rows) == (near,)
    assert _best_or_mean([alike, opposite, near], rows) == (near, opposite)
    assert _best_or_mean([near, attempt(truth + np.where(np.arange(n) < 5, -error, error), rows)], rows) == (near,)
    opposite.n_trees = 0
    assert _best_or_mean([alike, opposite, near], rows) == (near,)


def test_held_out_log_odds_of_two_attempts_are_their_mean():
    first, second = SimpleNamespace(held_out=np.array([1.0, 2.0])), SimpleNamespace(held_out=np.array([3.0, 0.0]))
    assert Ensembles((first, second), [], None, 0.0).held_out.tolist() == [2.0, 1.0]
