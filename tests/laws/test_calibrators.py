"""Laws that hold for every registered method, whatever it does inside."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from mbct.calibrators import available, calibrator_class, make
from mbct.calibrators.persistence import dumps, load_model, loads
from mbct.calibrators.score_only.score_map import ScoreCalibrator
from mbct.errors import DataError

# Some laws are about a handful of rows.
pytestmark = pytest.mark.filterwarnings("ignore:too few rows to tell")

EXTREMES = np.array([0.0, 5e-324, 1e-300, 1e-12, 1e-9, 0.5, 1.0 - 1e-9, 1.0 - 1e-16, 1.0])

SMALL_SAMPLE_SETTINGS = {
    "lightgbm": {"min_child_samples": 5, "n_estimators": 20, "n_jobs": 1},
    "segment": {"field": "colour", "min_rows": 60},
}

METHODS = available()
every_method = pytest.mark.parametrize("name", METHODS)


def calibrator(name):
    return make(name, score_column="p", **SMALL_SAMPLE_SETTINGS.get(name, {}))


def sample(seed=0, n=300):
    """Scores that are biased by colour, with ties and labels of both classes."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.8, 1.6, n).round(3)
    colour = rng.choice(["red", "green", "blue"], n, p=[0.5, 0.4, 0.1])
    truth = np.clip(p**1.4 * np.where(colour == "red", 1.2, 0.7), 0, 1)
    frame = pd.DataFrame({"p": p, "colour": colour, "size": rng.normal(size=n)})
    return frame, (rng.random(n) < truth).astype(int)


@every_method
def test_prediction_is_pure(name):
    frame, y = sample()
    before = frame.copy()
    fitted = calibrator(name).fit(frame, y)
    content = dumps(fitted)
    first = fitted.calibrate(frame)
    np.testing.assert_array_equal(fitted.calibrate(frame), first)
    assert dumps(fitted) == content
    pd.testing.assert_frame_equal(frame, before)


@every_method
def test_a_batch_equals_its_rows(name):
    frame, y = sample()
    fitted = calibrator(name).fit(frame, y)
    batch = fitted.calibrate(frame.head(40))
    one_by_one = np.concatenate([fitted.calibrate(frame.iloc[[i]]) for i in range(40)])
    np.testing.assert_array_equal(batch, one_by_one)


@every_method
def test_refits_agree_to_the_byte(name):
    frame, y = sample()
    fitted = calibrator(name).fit(frame, y)
    content = dumps(fitted)
    assert dumps(calibrator(name).fit(frame, y)) == content
    other_frame, other_y = sample(seed=7)
    fitted.fit(other_frame, other_y)
    assert dumps(fitted) != content or name == "identity"
    assert dumps(fitted.fit(frame, y)) == content, "a refit keeps something of the last one"


@every_method
def test_the_order_of_rows_does_not_matter(name):
    frame, y = sample()
    order = np.random.default_rng(1).permutation(len(frame))
    weight = np.random.default_rng(2).uniform(0.2, 3.0, len(frame))
    fitted = calibrator(name).fit(frame, y, weight)
    shuffled = calibrator(name).fit(frame.iloc[order], y[order], weight[order])
    np.testing.assert_allclose(shuffled.calibrate(frame), fitted.calibrate(frame), rtol=1e-7, atol=1e-9)
    if issubclass(calibrator_class(name), ScoreCalibrator):
        assert dumps(shuffled) == dumps(fitted)


@every_method
def test_a_clone_is_independent(name):
    frame, y = sample()
    fitted = calibrator(name).fit(frame, y)
    content = dumps(fitted)
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not copy.__sklearn_is_fitted__()
    other_frame, other_y = sample(seed=7)
    copy.fit(other_frame, other_y)
    assert dumps(fitted) == content


@every_method
def test_parameters_rebuild_the_calibrator(name):
    original = calibrator(name)
    rebuilt = type(original)(**original.get_params())
    assert rebuilt.get_params() == original.get_params()
    assert "score_column" in original.get_params()


@every_method
def test_a_saved_model_is_the_same_model(name, tmp_path):
    frame, y = sample()
    fitted = calibrator(name).fit(frame, y)
    fitted.save(tmp_path / "model.json")
    loaded = load_model(tmp_path / "model.json")
    assert type(loaded) is type(fitted)
    assert dumps(loaded) == dumps(fitted) == (tmp_path / "model.json").read_bytes()
    fresh, _ = sample(seed=3)
    fresh.loc[:4, "colour"] = "never seen"
    np.testing.assert_array_equal(loaded.calibrate(fresh), fitted.calibrate(fresh))
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]


@every_method
def test_it_pickles(name):
    frame, y = sample()
    fitted = calibrator(name).fit(frame, y)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.calibrate(frame), fitted.calibrate(frame))


@every_method
def test_a_weight_of_k_is_k_copies(name):
    frame, y = sample()
    weight = np.random.default_rng(5).integers(0, 4, len(frame))
    repeated = np.repeat(np.arange(len(frame)), weight)
    weighted = calibrator(name).fit(frame, y, weight).calibrate(frame)
    copied = calibrator(name).fit(frame.iloc[repeated], y[repeated]).calibrate(frame)
    np.testing.assert_allclose(weighted, copied, rtol=1e-9, atol=1e-12)


@every_method
def test_outputs_are_probabilities(name):
    frame, y = sample()
    fitted = calibrator(name).fit(frame, y)
    probabilities = fitted.predict_proba(frame)
    assert probabilities.shape == (len(frame), 2)
    assert np.all((probabilities >= 0) & (probabilities <= 1))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(fitted.predict(frame), probabilities[:, 1] > 0.5)


@every_method
def test_every_kind_of_frame_gives_the_same(name):
    frame, y = sample()
    expected = calibrator(name).fit(frame, y).calibrate(frame)
    polars_frame = pl.DataFrame({column: frame[column].to_numpy() for column in frame})
    columns = {column: frame[column].to_numpy() for column in frame}
    for other in (polars_frame, polars_frame.to_arrow(), columns):
        np.testing.assert_array_equal(calibrator(name).fit(other, y).calibrate(other), expected)


@pytest.mark.parametrize("name", [name for name in METHODS if calibrator_class(name).monotone])
@settings(deadline=None, max_examples=40)
@given(
    rows=st.lists(
        st.tuples(st.one_of(st.floats(0, 1), st.sampled_from(EXTREMES.tolist())), st.booleans(), st.integers(1, 5)),
        min_size=2,
        max_size=40,
    )
)
def test_monotone_methods_never_fall(name, rows):
    p, y, weight = (np.array(part, dtype=float) for part in zip(*rows, strict=True))
    y[0], y[1] = 0.0, 1.0
    fitted = make(name).fit(p, y, weight)
    scores = np.sort(np.concatenate([p, np.linspace(0, 1, 201), EXTREMES]))
    # The last bits of exp and log are not monotone; anything larger would be a fault.
    assert np.all(np.diff(fitted.calibrate(scores)) >= -1e-14)


@pytest.mark.parametrize("name", [name for name in METHODS if calibrator_class(name).strict])
@pytest.mark.parametrize("seed", range(5))
def test_strict_methods_always_rise(name, seed):
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=400)
    y = rng.uniform(size=400) < p**2
    rising = make(name).fit(p, y).calibrate(np.linspace(1e-9, 1 - 1e-9, 1001))
    assert np.all(np.diff(rising) > 0)


@every_method
@pytest.mark.parametrize("constant", [0.0, 1e-300, 0.3, 1.0])
def test_constant_predictions_give_a_result(name, constant):
    y = np.array([0, 1] * 20 + [0] * 20)
    calibrated = make(name).fit(np.full(60, constant), y).calibrate(np.array([constant, 0.0, 0.2, 1.0]))
    assert np.all(np.isfinite(calibrated) & (calibrated >= 0) & (calibrated <= 1))
    if name in {"platt", "beta", "histogram", "scaling-binning"}:
        assert calibrated[0] == pytest.approx(1 / 3, abs=1e-6)
    if name in {"affine", "quadratic", "spline", "isotonic"} and constant == 0.3:
        assert calibrated[0] == pytest.approx(1 / 3, abs=0.01), "a prior near the label rate hardly moves it"


@every_method
@pytest.mark.parametrize(
    ("p", "y"), [([0.3, 0.6], [0, 1]), ([0.6, 0.3], [0, 1]), ([0.4, 0.4], [1, 0]), ([0.1, 0.2, 0.9], [0, 1, 1])]
)
def test_tiny_samples_give_a_result(name, p, y):
    fitted = make(name).fit(np.array(p), np.array(y))
    calibrated = fitted.calibrate(np.linspace(0, 1, 11))
    assert np.all(np.isfinite(calibrated) & (calibrated >= 0) & (calibrated <= 1))
    assert dumps(loads(dumps(fitted))) == dumps(fitted)


@every_method
@pytest.mark.parametrize("label", [0, 1])
def test_equal_labels_give_a_result_or_one_clear_error(name, label):
    p, y = np.linspace(0.1, 0.9, 30), np.full(30, label)
    if calibrator_class(name).accepts_one_class:
        assert np.all(np.isfinite(make(name).fit(p, y).calibrate(p)))
    else:
        with pytest.raises(DataError, match=f"the label is {label} in every row: both classes are needed"):
            make(name).fit(p, y)


@every_method
def test_extreme_probabilities_give_a_result(name):
    p = np.tile(EXTREMES, 20)
    y = np.random.default_rng(0).uniform(size=len(p)) < np.clip(p, 0.1, 0.9)
    fitted = make(name).fit(p, y)
    calibrated = fitted.calibrate(EXTREMES)
    assert np.all(np.isfinite(calibrated) & (calibrated >= 0) & (calibrated <= 1))
    assert dumps(loads(dumps(fitted))) == dumps(fitted)


@every_method
def test_separable_labels_give_a_result(name):
    p = np.linspace(0.01, 0.99, 60)
    calibrated = make(name).fit(p, p > 0.5).calibrate(p)
    assert np.all(np.isfinite(calibrated) & (calibrated >= 0) & (calibrated <= 1))


@every_method
def test_a_failed_fit_leaves_nothing_fitted(name):
    unfitted = make(name)
    with pytest.raises(DataError):
        unfitted.fit(np.array([0.2, np.nan]), np.array([0, 1]))
    assert not unfitted.__sklearn_is_fitted__()
