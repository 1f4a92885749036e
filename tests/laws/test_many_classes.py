"""The laws of every method, with a score column for each of three classes."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from mbct.calibrators import available, calibrator_class, make
from mbct.calibrators.multiclass.scores import ManyScores
from mbct.calibrators.persistence import dumps, load_model, loads
from mbct.errors import DataError

SCORES = ["p_cat", "p_dog", "p_eel"]
ANIMALS = np.array(["cat", "dog", "eel"])
_SMALL = {"max_trees": 6, "n_folds": 2, "n_threads": 1}
VARIANTS = {
    "dirichlet": ("dirichlet", {}),
    "dirichlet, given penalty": ("dirichlet", {"penalty": 1e-3}),
    **{f"matrix-scaling, {s}": ("matrix-scaling", {"structure": s}) for s in ("temperature", "vector", "matrix")},
    **{f"mbct, {c}": ("mbct-multiclass", {"coupling": c, **_SMALL}) for c in ("joint", "one-vs-rest")},
}
every_method = pytest.mark.parametrize("name", VARIANTS)
pytestmark = pytest.mark.filterwarnings("ignore:too few rows to tell", "ignore:every score is 0 or 1")


def calibrator(name, **others):
    method, parameters = VARIANTS[name]
    return make(method, **{"score_column": SCORES, **parameters, **others})


def sample(seed=0, n=400):
    """Scores that are too sure and biased by colour, with ties."""
    rng = np.random.default_rng(seed)
    z = (rng.normal(size=(n, 3)) * 1.5).round(1)
    colour = rng.choice(["red", "green"], n)
    truth = softmax(0.6 * z + np.column_stack([1.5 * (colour == "red"), np.zeros((n, 2))]))
    label = (rng.random((n, 1)) > truth.cumsum(axis=1)).sum(axis=1)
    frame = pd.DataFrame(softmax(z), columns=SCORES).assign(colour=colour, size=rng.normal(size=n))
    return frame, ANIMALS[label]


def softmax(z):
    e = np.exp(z)
    return e / e.sum(axis=1, keepdims=True)


def assert_probabilities(found, n_rows):
    assert found.shape == (n_rows, 3)
    assert np.all(np.isfinite(found) & (found >= 0) & (found <= 1))
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=0, atol=1e-12)


def test_no_method_of_many_classes_is_left_out():
    many = {name for name in available() if issubclass(calibrator_class(name), ManyScores)}
    assert many == {method for method, _ in VARIANTS.values()}


@every_method
def test_prediction_is_pure_and_a_batch_equals_its_rows(name):
    frame, y = sample()
    before = frame.copy()
    fitted = calibrator(name).fit(frame, y)
    content, batch = dumps(fitted), fitted.calibrate(frame.head(30))
    np.testing.assert_array_equal(fitted.calibrate(frame)[:30], batch)
    np.testing.assert_array_equal(np.concatenate([fitted.calibrate(frame.iloc[[i]]) for i in range(30)]), batch)
    assert dumps(fitted) == content
    pd.testing.assert_frame_equal(frame, before)


@every_method
def test_refits_agree_to_the_byte_and_a_clone_is_independent(name):
    frame, y = sample()
    fitted = calibrator(name).fit(frame, y)
    content = dumps(fitted)
    assert dumps(calibrator(name).fit(frame, y)) == content
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not copy.__sklearn_is_fitted__()
    other = copy.fit(*sample(seed=7))
    assert dumps(other) != content
    assert dumps(fitted) == content
    assert dumps(other.fit(frame, y)) == content, "a refit keeps something of the last one"


@every_method
def test_the_order_of_rows_does_not_matter(name):
    frame, y = sample()
    order = np.random.default_rng(1).permutation(len(frame))
    weight = np.random.default_rng(2).uniform(0.2, 3.0, len(frame))
    fitted = calibrator(name).fit(frame, y, weight)
    shuffled = calibrator(name).fit(frame.iloc[order], y[order], weight[order])
    np.testing.assert_allclose(shuffled.calibrate(frame), fitted.calibrate(frame), rtol=1e-7, atol=1e-9)


@every_method
def test_a_weight_of_k_is_k_copies(name):
    frame, y = sample()
    weight = np.random.default_rng(5).integers(0, 4, len(frame))
    repeated = np.repeat(np.arange(len(frame)), weight)
    weighted = calibrator(name).fit(frame, y, weight).calibrate(frame)
    copied = calibrator(name).fit(frame.iloc[repeated], y[repeated]).calibrate(frame)
    np.testing.assert_allclose(weighted, copied, rtol=1e-7, atol=1e-9)


@every_method
def test_a_saved_or_pickled_model_is_the_same_model(name, tmp_path):
    frame, y = sample()
    fitted = calibrator(name).fit(frame, y)
    fitted.save(tmp_path / "model.json")
    loaded = load_model(tmp_path / "model.json")
    assert type(loaded) is type(fitted)
    assert dumps(loaded) == dumps(fitted) == (tmp_path / "model.json").read_bytes()
    fresh, _ = sample(seed=3)
    fresh.loc[:4, "colour"] = "never seen"
    for again in (loaded, pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(again.calibrate(fresh), fitted.calibrate(fresh))
        np.testing.assert_array_equal(again.predict(fresh), fitted.predict(fresh))


@every_method
def test_outputs_are_probabilities_that_sum_to_one(name):
    frame, y = sample()
    fitted = calibrator(name).fit(frame, y)
    probabilities = fitted.predict_proba(frame)
    assert_probabilities(probabilities, len(frame))
    assert fitted.classes_.tolist() == ANIMALS.tolist()
    np.testing.assert_array_equal(fitted.predict(frame), ANIMALS[probabilities.argmax(axis=1)])


@every_method
def test_every_kind_of_frame_gives_the_same(name):
    frame, y = sample()
    expected = calibrator(name).fit(frame, y).calibrate(frame)
    columns = {column: frame[column].to_numpy() for column in frame}
    for other in (pl.DataFrame(columns), pl.DataFrame(columns).to_arrow(), columns):
        np.testing.assert_array_equal(calibrator(name).fit(other, y).calibrate(other), expected)
    beside = frame.drop(columns=SCORES)
    matrix = frame[SCORES].to_numpy()
    fitted = calibrator(name, score_column=None).fit(beside, y, y_prob=matrix)
    np.testing.assert_array_equal(fitted.calibrate(beside, y_prob=matrix), expected)


@pytest.mark.parametrize("name", [name for name in VARIANTS if name != "mbct, joint"])
def test_columns_in_another_order_give_the_same_by_class(name):
    """But for the features that joint trees draw, which follow the order of the columns."""
    frame, y = sample()
    turned = calibrator(name, score_column=SCORES[::-1], classes=ANIMALS[::-1].tolist()).fit(frame, y)
    expected = calibrator(name).fit(frame, y).calibrate(frame)

    np.testing.assert_allclose(turned.calibrate(frame)[:, ::-1], expected, atol=1e-6)


@every_method
@pytest.mark.parametrize(
    "scores",
    [
        np.full((60, 3), 1 / 3),
        np.tile(np.eye(3), (20, 1)),
        np.tile([[1e-300, 1e-12, 1.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]], (20, 1)),
        np.eye(3)[np.repeat([0, 1, 2], 20)] * 0.7 + 0.1,
    ],
    ids=["constant", "decisions", "extreme", "separable"],
)
def test_scores_of_any_kind_give_a_result(name, scores):
    y = ANIMALS[np.repeat([0, 1, 2], 20)]
    fitted = calibrator(name).fit(pd.DataFrame(scores, columns=SCORES), y)
    extremes = np.vstack([scores[:3], np.eye(3), [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [1e-300, 0.5, 0.5]]])
    assert_probabilities(fitted.calibrate(pd.DataFrame(extremes, columns=SCORES)), len(extremes))
    assert dumps(loads(dumps(fitted))) == dumps(fitted)


@every_method
def test_tiny_samples_give_a_result(name):
    frame, _ = sample(n=3)
    fitted = calibrator(name).fit(frame, ANIMALS)
    assert_probabilities(fitted.calibrate(frame), 3)
    two = calibrator(name, classes=ANIMALS.tolist()).fit(frame.head(2), ANIMALS[:2])
    assert_probabilities(two.calibrate(frame), 3)


@every_method
def test_one_class_and_bad_scores_are_named_and_leave_nothing_fitted(name):
    frame, y = sample()
    unfitted = calibrator(name, classes=ANIMALS.tolist())
    with pytest.raises(DataError, match="single class"):
        unfitted.fit(frame, np.full(len(y), "cat"))
    with pytest.raises(DataError, match="p_dog"):
        unfitted.fit(frame.assign(p_dog=np.nan), y)
    assert not unfitted.__sklearn_is_fitted__()
