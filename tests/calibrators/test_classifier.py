import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_validate,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from mbct import CalibratedClassifier
from mbct.calibrators import PlattCalibrator, SegmentCalibrator
from mbct.calibrators.classifier import BASE_SCORE
from mbct.errors import DataError, ParameterError


@pytest.mark.filterwarnings("ignore::mbct.errors.MBCTWarning")
@parametrize_with_checks(
    [
        CalibratedClassifier(LogisticRegression()),
        CalibratedClassifier(LogisticRegression(), "platt"),
        CalibratedClassifier(DecisionTreeClassifier(random_state=0), "isotonic"),
    ]
)
def test_keeps_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


def over_confident(n_classes=2, n=1500, seed=0):
    X, y = make_classification(n, 6, n_informative=4, n_redundant=2, n_classes=n_classes, flip_y=0.2, random_state=seed)
    return X[: n // 2], y[: n // 2], X[n // 2 :], y[n // 2 :]


@pytest.mark.parametrize("calibrator", [None, "platt", "isotonic", "venn-abers"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_it_mends_an_over_confident_classifier(calibrator, n_classes):
    X, y, fresh, fresh_y = over_confident(n_classes)
    base = GaussianNB().fit(X, y)
    mended = CalibratedClassifier(GaussianNB(), calibrator).fit(X, y)
    q = np.clip(mended.predict_proba(fresh), 1e-6, 1)
    assert log_loss(fresh_y, q / q.sum(axis=1, keepdims=True)) < log_loss(fresh_y, base.predict_proba(fresh))
    assert len(mended.calibrators_) == (1 if n_classes == 2 else 3)


def test_without_a_calibrator_named_it_is_mbct():
    X, y, _, _ = over_confident()
    assert CalibratedClassifier(GaussianNB()).fit(X, y).calibrators_[0].method == "mbct"


def test_the_classifier_is_the_one_of_all_rows():
    X, y, fresh, _ = over_confident()
    fitted = CalibratedClassifier(RandomForestClassifier(10, random_state=0), "platt").fit(X, y)
    alone = RandomForestClassifier(10, random_state=0).fit(X, y)
    np.testing.assert_array_equal(fitted.estimator_.predict_proba(fresh), alone.predict_proba(fresh))


def test_the_calibrator_sees_held_out_probabilities():
    X, y, _, _ = over_confident()
    # A tree that knows its rows by heart is always right on them: only held-out rows show how bad it is.
    fitted = CalibratedClassifier(DecisionTreeClassifier(random_state=0), "platt").fit(X, y)
    sure = fitted.predict_proba(X).max(axis=1)
    assert np.all(sure < 0.9)


def test_prefit_leaves_the_classifier_alone():
    X, y, fresh, fresh_y = over_confident()
    # The shares of 16 neighbours are whole sixteenths, which the rounding of the scores leaves as they are.
    base = KNeighborsClassifier(16).fit(X, y)
    fitted = CalibratedClassifier(base, "platt", cv="prefit").fit(fresh, fresh_y)
    assert fitted.estimator_ is base
    expected = PlattCalibrator().fit(base.predict_proba(fresh)[:, 1], fresh_y)
    np.testing.assert_array_equal(fitted.predict_proba(X)[:, 1], expected.calibrate(base.predict_proba(X)[:, 1]))


def test_the_calibrator_sees_the_features():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=4000), "site": rng.choice([0, 1], 4000)})
    y = (rng.uniform(size=4000) < 1 / (1 + np.exp(-frame["x"] * np.where(frame["site"] == 1, 3, 0.2)))).astype(int)
    # The base sees x alone; what x is worth depends on the site.
    blind = LogisticRegression(max_iter=200).fit(frame[["x"]], y)
    by_site = CalibratedClassifier(_OnlyX(), SegmentCalibrator(field="site")).fit(frame, y)
    assert by_site.calibrators_[0].score_column == BASE_SCORE
    assert set(by_site.calibrators_[0].segments_) == {"0", "1"}
    gain = log_loss(y, blind.predict_proba(frame[["x"]])) - log_loss(y, by_site.predict_proba(frame))
    assert gain > 0.03


class _OnlyX(LogisticRegression):
    """Looks at the column x only."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X[["x"]], y, sample_weight)

    def predict_proba(self, X):
        return super().predict_proba(X[["x"]])


@pytest.mark.parametrize("labels", [["no", "yes"], [-1, 1], [False, True], ["a", "b", "c"], [10, 20, 30]])
def test_labels_of_any_type(labels):
    X, code, fresh, _ = over_confident(len(labels))
    y = np.array(labels)[code]
    fitted = CalibratedClassifier(GaussianNB(), "platt").fit(X, y)
    assert fitted.classes_.tolist() == sorted(labels)
    assert fitted.predict(fresh).dtype == y.dtype
    np.testing.assert_allclose(fitted.predict_proba(fresh).sum(axis=1), 1.0)


A_TREE = DecisionTreeClassifier(max_depth=4, random_state=0)


@pytest.mark.parametrize(
    ("base", "calibrator", "most"),
    [
        # A tree counts: its sums of whole weights are exact, so nothing may differ.
        (A_TREE, "isotonic", 0.0),
        (A_TREE, "beta", 0.0),
        (A_TREE, "lightgbm", 0.0),
        (A_TREE, "mbct", 0.0),
        # The means and variances of the base itself round apart; steep isotonic steps make that larger.
        (GaussianNB(), "beta", 1e-10),
        (GaussianNB(), "isotonic", 1e-8),
    ],
)
def test_weights_are_copies_and_order_does_not_matter(base, calibrator, most):
    X, y, fresh, _ = over_confident()
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    rows = np.random.default_rng(1).permutation(np.repeat(np.arange(len(y)), weight))
    fitted = CalibratedClassifier(base, calibrator)
    weighted = clone(fitted).fit(X, y, weight).predict_proba(fresh)
    copied = clone(fitted).fit(X[rows], y[rows]).predict_proba(fresh)
    np.testing.assert_allclose(weighted, copied, rtol=0, atol=most)


def test_weights_serve_the_calibrator_where_the_classifier_takes_none():
    X, y, fresh, _ = over_confident()
    weight = np.where(y == 1, 5.0, 1.0)
    classifier = CalibratedClassifier(KNeighborsClassifier(), "platt")
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_weight"):
        weighted = classifier.fit(X, y, weight).predict_proba(fresh)[:, 1]
    assert weighted.mean() > clone(classifier).fit(X, y).predict_proba(fresh)[:, 1].mean() + 0.1


def test_sparse_rows_and_margins():
    X, y, fresh, _ = over_confident()
    for n_classes in (2, 3):
        X, y, fresh, _ = over_confident(n_classes)
        fitted = CalibratedClassifier(LinearSVC(), "platt").fit(sparse.csr_matrix(X), y)
        np.testing.assert_allclose(fitted.predict_proba(sparse.csr_matrix(fresh)).sum(axis=1), 1.0)
        dense = CalibratedClassifier(LinearSVC(), "platt").fit(X, y)
        assert np.mean(dense.predict(fresh) == fitted.predict(sparse.csr_matrix(fresh))) > 0.95


def test_splitters_and_lists_of_splits():
    X, y, fresh, _ = over_confident()
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    by_splitter = CalibratedClassifier(GaussianNB(), "platt", cv=folds).fit(X, y)
    by_list = CalibratedClassifier(GaussianNB(), "platt", cv=list(folds.split(X, y))).fit(X, y)
    np.testing.assert_array_equal(by_splitter.predict_proba(fresh), by_list.predict_proba(fresh))
    twice = CalibratedClassifier(GaussianNB(), "platt", cv=list(folds.split(X, y)) * 2).fit(X, y)
    np.testing.assert_allclose(twice.predict_proba(fresh), by_list.predict_proba(fresh), atol=1e-12)
    later = CalibratedClassifier(GaussianNB(), "platt", cv=TimeSeriesSplit(3)).fit(X, y)
    assert np.all(np.isfinite(later.predict_proba(fresh)))


def test_missing_values_pass_to_a_classifier_that_takes_them():
    X, y, fresh, _ = over_confident()
    X[::7, 0] = fresh[::5, 1] = np.nan
    fitted = CalibratedClassifier(HistGradientBoostingClassifier(max_iter=10)).fit(X, y)
    assert np.all(np.isfinite(fitted.predict_proba(fresh)))


def test_it_can_be_searched_over():
    X, y, _, _ = over_confident(n=600)
    search = GridSearchCV(
        CalibratedClassifier(GaussianNB(), PlattCalibrator()),
        {"calibrator__smooth_targets": [True, False], "estimator__var_smoothing": [1e-9, 1e3]},
        scoring="neg_log_loss",
        cv=3,
    ).fit(X, y)
    assert len(np.unique(search.cv_results_["mean_test_score"])) == 4
    assert search.best_params_["estimator__var_smoothing"] == 1e-9  # 1e3 smooths every difference away
    assert search.best_score_ < search.best_estimator_.score(X, y)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"calibrator": "magic"}, ParameterError, "unknown method 'magic'; available are"),
        (
            {"calibrator": LogisticRegression()},
            ParameterError,
            "calibrator must be a calibrator or the name of a method",
        ),
        ({"cv": "five"}, ParameterError, "cv must be a number, a splitter, a list of splits or 'prefit', got 'five'"),
        ({"cv": 1}, ParameterError, "cv must be a number of at least 2, got 1"),
    ],
)
def test_senseless_parameters_are_named(parameters, error, message):
    X, y, _, _ = over_confident(n=200)
    with pytest.raises(error, match=message):
        CalibratedClassifier(GaussianNB(), **{"calibrator": "platt", **parameters}).fit(X, y)


def test_bad_data_is_named():
    X, y, _, _ = over_confident(n=200)
    with pytest.raises(DataError, match="y has only one class"):
        CalibratedClassifier(GaussianNB(), "platt").fit(X, np.zeros(len(y)))
    lonely = np.zeros(len(y))
    lonely[3] = 1
    with pytest.raises(DataError, match="has only one sample \\(one distinct row\\)"):
        CalibratedClassifier(GaussianNB(), "platt").fit(X, lonely)
    frame = pd.DataFrame(X, columns=[*"abcde", BASE_SCORE])
    with pytest.raises(DataError, match="the column name 'base_score' is kept for the classifier's probability"):
        CalibratedClassifier(GaussianNB()).fit(frame, y)


def test_no_warning_of_its_own():
    X, y, fresh, _ = over_confident()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CalibratedClassifier(GaussianNB(), "beta").fit(X, y).predict_proba(fresh)


def people(n_people=60, n_each=25, seed=0):
    """Rows of persons, each with a habit of their own that only the person's number tells."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(n_people), n_each)
    x = rng.normal(size=len(person))
    habit = rng.normal(0.0, 1.5, n_people)[person]
    y = (rng.uniform(size=len(person)) < 1.0 / (1.0 + np.exp(-(x + habit)))).astype(int)
    return np.column_stack([x, person]), y, person


@pytest.mark.parametrize("cv", [5, GroupKFold(5), StratifiedGroupKFold(5)])
def test_persons_are_held_out_whole(cv):
    X, y, person = people()
    forest = RandomForestClassifier(40, min_samples_leaf=3, random_state=0)
    by_row = CalibratedClassifier(forest, "platt").fit(X, y)
    by_person = CalibratedClassifier(forest, "platt", cv=cv).fit(X, y, groups=person)
    # The forest knows persons by heart: held out by row it looks much sharper than it is on new persons.
    assert by_person.calibrators_[0].map_.slope < 0.75 * by_row.calibrators_[0].map_.slope
    fresh, fresh_y, _ = people(seed=1)  # the same numbers, but other persons
    losses = [log_loss(fresh_y, c.predict_proba(fresh)) for c in (by_person, by_row)]
    assert losses[0] < losses[1]


class Recording(PlattCalibrator):
    """Remembers the groups it was given."""

    def fit(self, X, y=None, sample_weight=None, *, y_prob=None, groups=None):
        self.seen_ = groups
        return super().fit(X, y, sample_weight, y_prob=y_prob)


def test_groups_reach_a_calibrator_that_takes_them():
    X, y, person = people(n_each=10)
    fitted = CalibratedClassifier(LogisticRegression(), Recording(), cv=GroupKFold(3)).fit(X, y, groups=person)
    np.testing.assert_array_equal(fitted.calibrators_[0].seen_, person)
    later = CalibratedClassifier(LogisticRegression(), Recording(), cv=list(TimeSeriesSplit(2).split(X))).fit(
        X, y, groups=person
    )
    np.testing.assert_array_equal(later.calibrators_[0].seen_, person[200:])


def test_groups_are_routed():
    X, y, person = people(n_each=10)
    folds = GroupKFold(3)
    with sklearn.config_context(enable_metadata_routing=True):
        classifier = CalibratedClassifier(LogisticRegression(), Recording(), cv=GroupKFold(3))
        found = cross_validate(
            classifier.set_fit_request(groups=True),
            *(X, y),
            cv=folds,
            params={"groups": person},
            error_score="raise",
            return_estimator=True,
        )
    for fitted, (train, _) in zip(found["estimator"], folds.split(X, y, person), strict=True):
        np.testing.assert_array_equal(fitted.calibrators_[0].seen_, person[train])


def test_unequal_and_too_few_groups_are_named():
    X, y, person = people(n_each=10)
    with pytest.raises(DataError, match="groups has 599 rows where 600 were expected"):
        CalibratedClassifier(LogisticRegression(), "platt").fit(X, y, groups=person[1:])
    with pytest.raises(DataError, match="3 blocks of rows cannot fill 5 folds: take cv=3 or less"):
        CalibratedClassifier(LogisticRegression(), "platt").fit(X, y, groups=person // 20)


def test_a_splitter_by_groups_without_groups_says_so():
    X, y, _, _ = over_confident(n=200)
    with pytest.raises(ValueError, match="The 'groups' parameter should not be None"):
        CalibratedClassifier(GaussianNB(), "platt", cv=GroupKFold(3)).fit(X, y)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("cv", [3, TimeSeriesSplit(3)])
def test_an_ensemble_is_the_mean_of_its_pairs(cv, n_classes):
    X, y, fresh, fresh_y = over_confident(n_classes)
    fitted = CalibratedClassifier(GaussianNB(), "platt", cv=cv, ensemble=True).fit(X, y)
    assert len(fitted.pairs_) == 3
    if n_classes == 2:
        each = [c[0].calibrate({BASE_SCORE: e.predict_proba(fresh)[:, 1]}) for e, c in fitted.pairs_]
        np.testing.assert_allclose(fitted.predict_proba(fresh)[:, 1], np.mean(each, axis=0), atol=1e-5)
    base = GaussianNB().fit(X, y)
    assert log_loss(fresh_y, fitted.predict_proba(fresh)) < log_loss(fresh_y, base.predict_proba(fresh))
