"""scikit-learn's own checks, on every calibrator: as it is, and fed with probabilities where a check feeds numbers."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from mbct.calibrators import available, calibrator_class, make
from mbct.calibrators.persistence import dumps, load_model, loads
from mbct.errors import DataError

# The checks of scikit-learn feed a handful of rows.
pytestmark = pytest.mark.filterwarnings("ignore::mbct.errors.MBCTWarning")

QUICK = {
    "mbct": {"max_trees": 6, "n_folds": 2},
    "mbct-multiclass": {"max_trees": 6, "n_folds": 2},
    "lightgbm": {"min_child_samples": 5, "n_estimators": 10, "n_jobs": 1},
    "segment": {"field": 1},
}
OUTSIDE = "feeds scores outside [0, 1], which are no probabilities and are refused"
FEED_OTHER_NUMBERS = {
    "check_classifier_data_not_an_array",
    "check_classifiers_classes",
    "check_classifiers_train",
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_estimators_dtypes",
    "check_estimators_fit_returns_self",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit2d_1feature",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
    "check_sample_weights_not_an_array",
    "check_sample_weights_not_overwritten",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
}
"""Checks that feed normal draws or blobs; :func:`fed_with_probabilities` runs these too, on every calibrator."""


OWN_REASONS = {
    "identity": {
        "check_classifiers_one_label": "it leaves every score as it is, even where all labels are equal",
        "check_fit2d_1sample": OUTSIDE,
    }
}

every_method = pytest.mark.parametrize("name", available())


@every_method
def test_keeps_the_contract_of_scikit_learn(name):
    calibrator = calibrator_class(name)(score_column=0, **QUICK.get(name, {}))
    expected = {**dict.fromkeys(FEED_OTHER_NUMBERS, OUTSIDE), **OWN_REASONS.get(name, {})}
    results = check_estimator(calibrator, expected_failed_checks=expected, on_skip=None)
    assert {result["check_name"] for result in results if result["status"] == "xfail"} == set(expected)


def as_scores(X):
    """The first column through the logistic function; whatever is no table of numbers stays as it is."""
    if hasattr(X, "columns"):
        X = X.rename(columns=str)
        return X.assign(**{X.columns[0]: 1.0 / (1.0 + np.exp(-X.iloc[:, 0]))})
    array = X if hasattr(X, "tocsr") else np.asarray(X)
    if hasattr(X, "tocsr") or array.ndim != 2 or array.dtype.kind not in "fiu" or not array.shape[1]:
        return X
    array = array.astype(np.float64)
    array[:, 0] = np.where(np.isfinite(array[:, 0]), 1.0 / (1.0 + np.exp(-array[:, 0])), array[:, 0])
    return array


def fed_with_probabilities(name):
    """A calibrator of that name which takes any numbers."""
    base = calibrator_class(name)

    def fit(self, X, y=None, sample_weight=None):
        return base.fit(self, as_scores(X), y, sample_weight)

    def _open(self, X):
        return base._open(self, as_scores(X))

    title = f"Fed{base.__name__}"
    methods = {"fit": fit, "_open": _open, "__init__": base.__init__, "__module__": __name__, "__qualname__": title}
    globals()[title] = type(title, (base,), methods)  # where pickle looks for it
    return globals()[title](score_column=0, **QUICK.get(name, {}))


@every_method
def test_keeps_the_contract_where_numbers_are_turned_into_probabilities(name):
    results = check_estimator(fed_with_probabilities(name), on_skip=None)
    assert {result["check_name"] for result in results if result["status"] == "passed"} >= FEED_OTHER_NUMBERS


def biased(n=400, seed=0):
    """A score that is too high by far, beside a second column."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.02, 0.98, n)
    return np.column_stack([rng.integers(0, 3, n).astype(float), p]), (rng.uniform(size=n) < p**2).astype(int)


def quick(name, **parameters):
    settings = {**QUICK.get(name, {}), **({"field": 0} if name == "segment" else {})}
    return calibrator_class(name)(score_column=-1, **settings, **parameters)


@every_method
def test_the_score_is_the_mean_log_likelihood(name):
    X, y = biased()
    fitted = quick(name).fit(X, y)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    given = np.clip(fitted.predict_proba(X)[np.arange(len(y)), y], 2.2e-16, None)
    assert fitted.score(X, y, weight) == pytest.approx(np.average(np.log(given), weights=weight), rel=1e-9)


def test_the_score_of_many_classes_is_the_mean_log_likelihood():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1.0, 1.0, 1.0], 300)
    y = np.array(["a", "b", "c"])[[rng.choice(3, p=row) for row in p]]
    fitted = make("dirichlet").fit(p, y)
    given = fitted.predict_proba(p)[np.arange(300), np.searchsorted(fitted.classes_, y)]
    assert fitted.score(p, y) == pytest.approx(float(np.mean(np.log(given))))


@every_method
def test_cross_validation_needs_no_scorer(name):
    X, y = biased()
    scores = cross_val_score(quick(name), X, y, cv=2)
    assert np.all(scores < 0)
    assert scores.mean() > -1.0


def test_a_search_without_a_scorer_finds_the_better_parameter():
    X, y = biased(2000)
    search = GridSearchCV(make("histogram", score_column=-1), {"n_bins": [1, 10]}, cv=2).fit(X, y)
    assert search.best_params_ == {"n_bins": 10}
    one_bin = cross_val_score(make("histogram", score_column=-1, n_bins=1), X, y, cv=2).mean()
    assert search.best_score_ > one_bin + 0.1


@every_method
@pytest.mark.parametrize(
    ("labels", "kind"), [(["no", "yes"], str), ([False, True], bool), ([1, 2], int), ([-1.0, 1.0], float)]
)
def test_labels_may_be_of_any_type(name, labels, kind, tmp_path):
    X, y = biased()
    named = np.array(labels)[y]
    fitted = quick(name).fit(X, named)
    plain = quick(name).fit(X, y)
    assert fitted.classes_.tolist() == labels
    np.testing.assert_array_equal(fitted.predict_proba(X), plain.predict_proba(X))
    np.testing.assert_array_equal(fitted.predict(X), np.array(labels)[plain.predict(X)])
    assert fitted.score(X, named) == plain.score(X, y)
    fitted.save(tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    assert again.classes_.tolist() == labels
    assert isinstance(again.predict(X).tolist()[0], kind)
    with pytest.raises(DataError, match="holds 'maybe', which is not among the classes"):
        fitted.score(X, np.where(y == 1, "maybe", "no").astype(object) if kind is str else np.full(len(y), "maybe"))


def test_the_positive_class_can_be_named():
    X, y = biased()
    named = np.where(y == 1, "bad", "good")
    fitted = quick("mbct", positive="bad").fit(X, named)
    plain = quick("mbct").fit(X, y)
    assert fitted.classes_.tolist() == ["bad", "good"]
    assert fitted.positive_ == 0
    np.testing.assert_array_equal(fitted.calibrate(X), plain.calibrate(X))
    np.testing.assert_array_equal(fitted.predict_proba(X)[:, 0], plain.calibrate(X))
    assert fitted.score(X, named) == plain.score(X, y)
    again = loads(dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    with pytest.raises(DataError, match="positive='ugly' is not among the classes of y: 'bad', 'good'"):
        quick("mbct", positive="ugly").fit(X, named)


@every_method
def test_columns_are_counted_from_either_end(name):
    X, y = biased()
    settings = QUICK.get(name, {})
    first = X[:, ::-1]
    by_end = calibrator_class(name)(score_column=-2, **{**settings, **({"field": -1} if name == "segment" else {})})
    by_start = calibrator_class(name)(score_column=0, **settings)
    by_end.fit(first, y)
    by_start.fit(first, y)
    np.testing.assert_array_equal(by_end.calibrate(first), by_start.calibrate(first))
    assert by_end.score_column_ == "x0"
    with pytest.raises(DataError, match=r"column -3 is missing: the data has 2 feature\(s\), 'x0', 'x1'"):
        by_end.set_params(score_column=-3).fit(first, y)


@every_method
def test_a_notebook_shows_what_was_fitted(name):
    X, y = biased()
    unfitted = quick(name)
    assert "not fitted" in unfitted._repr_html_()
    shown = unfitted.fit(X, np.array(["<no>", "yes"])[y])._repr_html_()
    assert all(text in shown for text in (type(unfitted).__name__, "x1", "&lt;no&gt;"))
    assert "<no>" not in shown
    assert unfitted._repr_mimebundle_()["text/html"] == shown
