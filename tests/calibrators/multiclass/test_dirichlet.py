import numpy as np
import polars as pl
import pytest
from sklearn.base import clone

from mbct.calibrators import BetaCalibrator, DirichletCalibrator
from mbct.calibrators.multiclass import scaling
from mbct.calibrators.persistence import dumps, loads
from mbct.errors import DataError, ParameterError
from peers import ExactLogisticRegression, biased_scores


def three_classes(seed=0, n=2000):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([1.0, 1.5, 2.0], n)
    truth = p**1.5 * np.array([1.0, 2.0, 0.7])
    truth /= truth.sum(axis=1, keepdims=True)
    return p, (rng.uniform(size=(n, 1)) > truth.cumsum(axis=1)).sum(axis=1)


def test_without_penalty_it_is_multinomial_regression():
    p, y = three_classes()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(p))
    peer = ExactLogisticRegression(C=np.inf).fit(np.log(p), y, weight)
    ours = DirichletCalibrator(penalty=0.0).fit(p, y, weight)
    np.testing.assert_allclose(ours.predict_proba(p), peer.predict_proba(np.log(p)), atol=1e-6)


def test_two_columns_are_beta_calibration_but_for_the_penalty():
    p, y = biased_scores()
    np.testing.assert_allclose(
        DirichletCalibrator(penalty=0.0).fit(p, y).calibrate(p), BetaCalibrator().fit(p, y).calibrate(p), atol=1e-6
    )


def test_a_list_of_one_score_is_that_score():
    p, y = biased_scores()
    frame = pl.DataFrame({"p": p, "other": p[::-1]})
    np.testing.assert_array_equal(
        DirichletCalibrator(["p"]).fit(frame, y).calibrate(frame),
        DirichletCalibrator("p").fit(frame, y).calibrate(frame),
    )


def test_few_and_many_classes_are_solved_alike(monkeypatch):
    p, y = three_classes()
    by_matrix = DirichletCalibrator().fit(p, y).predict_proba(p)
    monkeypatch.setattr(scaling, "_MATRIX_CLASSES", 0)
    by_products = DirichletCalibrator().fit(p, y).predict_proba(p)
    np.testing.assert_allclose(by_products, by_matrix, rtol=0, atol=1e-7)


def test_a_large_penalty_leaves_only_the_diagonal():
    p, y = three_classes()
    fitted = DirichletCalibrator(penalty=1e6).fit(p, y).map_
    np.testing.assert_allclose(fitted.intercept, 0.0, atol=1e-5)
    assert np.max(np.abs(fitted.weights - np.diag(np.diag(fitted.weights)))) < 1e-5
    assert np.max(np.abs(np.diag(fitted.weights) - 1.0)) > 0.05


def test_the_penalty_is_chosen_on_held_out_rows():
    # Scores without any information: whatever W and b learn from few rows is noise.
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(8), 160), rng.integers(0, 8, 160)
    fresh, truth = rng.dirichlet(np.ones(8), 4000), rng.integers(0, 8, 4000)
    chosen, free = (DirichletCalibrator(penalty=k).fit(p, y).score(fresh, truth) for k in ("cv", 1e-3))
    assert chosen > free + 0.05
    assert chosen > -np.log(8) - 0.05
    with pytest.raises(ParameterError, match="penalty must be a number of at least 0, got 'auto'"):
        DirichletCalibrator(penalty="auto").fit(p, y)


def test_separable_rows_do_not_let_the_penalty_vanish():
    """A sample without an error is no proof that there are none: the first one must not cost without bound."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(4000, 3)) * 3.0
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (rng.uniform(size=(4000, 1)) > p.cumsum(axis=1)).sum(axis=1)
    clear = np.flatnonzero(p.argmax(axis=1) == y)[:60]
    fitted = DirichletCalibrator().fit(p[clear], y[clear])
    assert fitted.score(p, y) > DirichletCalibrator(penalty=1e-4).fit(p[clear], y[clear]).score(p, y) + 0.5


@pytest.mark.parametrize(
    "names", [np.array(["cat", "dog", "eel"]), np.array([-1, 5, 7]), np.array([0.5, 1.5, 2.5]), ["x", "y", "z"]]
)
def test_labels_of_any_type(names):
    p, y = three_classes()
    labels = np.asarray(names)[y]
    frame = pl.DataFrame({"a": p[:, 0], "b": p[:, 1], "other": p[:, 2] * 9, "c": p[:, 2], "label": labels})
    fitted = DirichletCalibrator(["a", "b", "c"]).fit(frame, "label")
    assert fitted.classes_.tolist() == list(names)
    probabilities = fitted.predict_proba(frame)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert np.mean(fitted.predict(frame) == labels) > 0.5
    again = loads(dumps(fitted))
    assert dumps(again) == dumps(fitted)
    assert again.classes_.dtype == fitted.classes_.dtype
    np.testing.assert_array_equal(again.predict_proba(frame), probabilities)
    np.testing.assert_array_equal(again.predict(frame), fitted.predict(frame))


def test_laws_hold_for_many_classes():
    p, y = three_classes(n=300)
    weight = np.random.default_rng(0).integers(0, 4, len(p))
    rows = np.repeat(np.arange(len(p)), weight)
    fitted = DirichletCalibrator().fit(p, y, weight)
    np.testing.assert_allclose(
        fitted.calibrate(p), clone(fitted).fit(p[rows], y[rows]).calibrate(p), rtol=1e-7, atol=1e-9
    )
    one_by_one = np.concatenate([fitted.calibrate(p[[i]]) for i in range(30)])
    np.testing.assert_array_equal(fitted.calibrate(p[:30]), one_by_one)
    as_matrix = DirichletCalibrator().fit(np.arange(len(p)), y, weight, y_prob=p)
    np.testing.assert_array_equal(as_matrix.calibrate(np.arange(len(p)), y_prob=p), fitted.calibrate(p))


def test_a_class_absent_from_the_labels_needs_to_be_named():
    p, y = three_classes(n=200)
    seen = y < 2
    with pytest.raises(DataError, match=r"3 score columns, but y has 2 classes \(0, 1\)"):
        DirichletCalibrator().fit(p[seen], y[seen])
    fitted = DirichletCalibrator(classes=[0, 1, 2]).fit(p[seen], y[seen])
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert np.mean(fitted.calibrate(p[seen])[:, 2]) < 0.05


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", "b", None], "y is missing: None in row 2; drop the rows without a label"),
        (["a", "b", 3], "mixes types that cannot be sorted"),
        ([0.0, 1.0, np.nan], "y is missing: nan in row 2"),
        ([1, 1, 1], "1 classes|single class"),
    ],
)
def test_bad_labels_are_named(labels, message):
    with pytest.raises(DataError, match=message):
        DirichletCalibrator(["x0", "x1"]).fit(np.full((3, 2), 0.5), np.array(labels, dtype=object))
