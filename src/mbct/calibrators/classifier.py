"""A scikit-learn classifier whose probabilities are calibrated with the features in view."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, assert_all_finite, column_or_1d, get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from mbct.calibrators.base import Calibrator
from mbct.calibrators.folds import block_folds, cross_validation_folds, row_keys, sparse_row_keys
from mbct.calibrators.registry import make
from mbct.data.blocks import number_blocks
from mbct.data.columns import read_columns
from mbct.errors import DataError, ParameterError
from mbct.stats.probabilities import scaled_to_one, sigmoid, softmax
from mbct.validation import FloatArray, as_weights, same_length

BASE_SCORE = "base_score"
"""Name under which the classifier's own probability stands beside the features."""

_SCORE_BITS = 36

RowArray = npt.NDArray[np.intp]


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Any classifier with one calibrator behind it, which sees the features and the classifier's probability.

    Folds give every row a probability from a classifier that has not seen it; one calibrator is fitted on these. The
    classifier is then fitted once more on all rows, so that prediction costs what it cost before and there is one set
    of rules to read and export. With more than two classes each class has its own calibrator (one against the rest),
    and the results are scaled to sum to one. Sparse matrices are passed to the classifier; the calibrator then sees the
    probability alone.

    Parameters
    ----------
    estimator : classifier
        Any classifier of scikit-learn's interface, with ``predict_proba`` or ``decision_function``.
    calibrator : Calibrator, str or None, default=None
        A calibrator, the name of a method, or None for ``MBCTCalibrator()``.
    cv : int, splitter, list of splits or "prefit", default=5
        Number of folds, which depend on what rows hold, not on their order; any splitter of scikit-learn (one by groups
        receives ``groups`` of :meth:`fit`); pairs of row numbers to fit on and to hold out (rows held out several times
        count with their mean); or "prefit": ``estimator`` is fitted already, and ``fit`` sees new rows.
    ensemble : bool, default=False
        True keeps the classifier of each split with a calibrator of its own held-out rows, and predicts with the mean
        of these pairs. Each calibrator then sees the classifier that it serves, as is wanted with ``TimeSeriesSplit``,
        whose first classifiers saw few rows.
    random_state : int, default=0
        Seed of the folds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    pairs_ : tuple of (classifier, tuple of Calibrator)
        The fitted classifier and its calibrators (one, or one for each of more than two classes); with ``ensemble`` a
        pair for each split.
    """

    def __init__(
        self,
        estimator: Any,
        calibrator: Calibrator | str | None = None,
        *,
        cv: Any = 5,
        ensemble: bool = False,
        random_state: int = 0,
    ):
        self.estimator = estimator
        self.calibrator = calibrator
        self.cv = cv
        self.ensemble = ensemble
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Fit the classifier and its calibrator.

        Parameters
        ----------
        X : data frame, array or sparse matrix of shape (n_rows, n_columns)
            Whatever ``estimator`` takes.
        y : array of shape (n_rows,)
            Labels of two or more classes of any type.
        sample_weight : array of shape (n_rows,) or None, default=None
            Weight of each row, for the calibrator and, where it takes weights, the classifier.
        groups : array of shape (n_rows,) or None, default=None
            Which rows belong together: passed to the splitter, and to a calibrator that takes groups. With ``cv`` a
            number, groups are held out whole.
        """
        labels = _checked_labels(y)
        weight = as_weights(sample_weight, len(labels))
        if groups is not None:
            same_length(len(labels), groups=groups)
        counted = np.flatnonzero(weight > 0)
        prefit = isinstance(self.cv, str)
        if prefit and self.cv != "prefit":
            raise ParameterError(f"cv must be a number, a splitter, a list of splits or 'prefit', got {self.cv!r}")
        if prefit:
            check_is_fitted(self.estimator)
            fitted, classes = self.estimator, np.asarray(self.estimator.classes_)
        else:
            classes = np.unique(labels[counted])
        if len(classes) == 1:
            raise DataError(f"y has only one class ({classes[0]!r}): at least two are needed; widen the sample")
        passed = None if sample_weight is None else weight
        if not prefit:
            # Before anything else looks at X, so that the classifier's own words tell what is wrong with it.
            fitted = self._fit_base(X, labels, passed, counted, warn=True)
        X, labels, groups = indexable(X, labels, groups)
        rows = _Rows(X, labels, weight, passed, None if groups is None else np.asarray(groups), classes)
        self.pairs_: tuple[tuple[Any, tuple[Calibrator, ...]], ...]
        if prefit:
            self.pairs_ = ((fitted, self._fit_calibrators(rows, _class_scores(fitted, X, classes))),)
        elif self.ensemble:
            self.pairs_ = self._fit_pairs(rows)
        else:
            self.pairs_ = ((fitted, self._fit_calibrators(rows, self._held_out_scores(rows))),)
        self.classes_ = classes
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(fitted, name):
                setattr(self, name, getattr(fitted, name))
        return self

    @property
    def estimator_(self) -> Any:
        """The fitted classifier; with ``ensemble`` the first of them."""
        return self.pairs_[0][0]

    @property
    def calibrators_(self) -> tuple[Calibrator, ...]:
        """Its calibrators: one, or one for each of more than two classes."""
        return self.pairs_[0][1]

    def predict_proba(self, X: Any) -> FloatArray:
        """Calibrated probabilities of all classes; the mean over an ensemble.

        Parameters
        ----------
        X : as in :meth:`fit`
            The rows.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self)
        each = [self._pair_probabilities(X, *pair) for pair in self.pairs_]
        return each[0] if len(each) == 1 else np.mean(each, axis=0)

    def _pair_probabilities(self, X: Any, estimator: Any, calibrators: tuple[Calibrator, ...]) -> FloatArray:
        scores = _class_scores(estimator, X, self.classes_)
        if len(calibrators) == 1:
            positive = _calibrated(calibrators[0], X, scores[:, 1])
            return np.column_stack([1.0 - positive, positive])
        return scaled_to_one(np.column_stack([_calibrated(c, X, scores[:, k]) for k, c in enumerate(calibrators)]))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable class of each row.

        Parameters
        ----------
        X : as in :meth:`fit`
            The rows.

        Returns
        -------
        ndarray of shape (n_rows,)
            Values of ``classes_``.
        """
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[np.argmax(probabilities, axis=1)])

    def _fit_base(self, X: Any, labels: npt.NDArray[Any], weight: Any, rows: RowArray, *, warn: bool = False) -> Any:
        estimator = clone(self.estimator)
        # All rows are passed as they came: what is wrong with X shows whole, and frames are not copied.
        whole = len(rows) == len(labels)
        part = X if whole else _safe_indexing(X, rows)
        if weight is None:
            return estimator.fit(part, labels[rows])
        if has_fit_parameter(estimator, "sample_weight"):
            return estimator.fit(part, labels[rows], sample_weight=weight[rows])
        if warn:
            name = type(estimator).__name__
            warnings.warn(f"{name} takes no sample_weight: the weights serve the calibrator alone", stacklevel=3)
        return estimator.fit(part, labels[rows])

    def _splits(self, rows: "_Rows") -> list[tuple[RowArray, RowArray]]:
        if not isinstance(self.cv, int | np.integer):
            found = check_cv(self.cv, rows.labels, classifier=True).split(rows.X, rows.labels, rows.groups)
            return [(train[rows.weight[train] > 0], np.asarray(test)) for train, test in found]
        counted = np.flatnonzero(rows.weight > 0)
        if rows.groups is None:
            keys = _content_keys(rows.X, self.random_state)[counted]
            fold = cross_validation_folds(keys, rows.labels[counted], self.cv)
        else:
            number = number_blocks(None, rows.groups[counted])
            fold = block_folds(number, rows.weight[counted], self.cv, self.random_state, "groups")
        return [(counted[fold != k], counted[fold == k]) for k in np.unique(fold)]

    def _split_scores(self, rows: "_Rows") -> Iterator[tuple[Any, RowArray, FloatArray]]:
        """The classifier of each split, the rows that it holds out, and their probabilities."""
        for train, test in self._splits(rows):
            base = self._fit_base(rows.X, rows.labels, rows.passed_weight, train)
            yield base, test, _class_scores(base, _safe_indexing(rows.X, test), rows.classes)

    def _held_out_scores(self, rows: "_Rows") -> FloatArray:
        """Mean held-out probabilities of each row; NaN for rows that no split holds out."""
        total = np.zeros((len(rows.labels), len(rows.classes)))
        times = np.zeros(len(rows.labels))
        for _, test, found in self._split_scores(rows):
            total[test] += found
            times[test] += 1
        return np.where(times[:, None] > 0, total / np.maximum(times, 1)[:, None], np.nan)

    def _fit_pairs(self, rows: "_Rows") -> tuple[tuple[Any, tuple[Calibrator, ...]], ...]:
        """A classifier for each split, and the calibrators of its own held-out rows."""
        pairs = []
        for base, test, found in self._split_scores(rows):
            scores = np.full((len(rows.labels), len(rows.classes)), np.nan)
            scores[test] = found
            pairs.append((base, self._fit_calibrators(rows, scores)))
        return tuple(pairs)

    def _fit_calibrators(self, rows: "_Rows", scores: FloatArray) -> tuple[Calibrator, ...]:
        """Calibrators of the rows that have scores."""
        known = np.flatnonzero((rows.weight > 0) & ~np.isnan(scores[:, 0]))
        part = rows.X if len(known) == len(rows.labels) else _safe_indexing(rows.X, known)
        targets = [1] if len(rows.classes) == 2 else range(len(rows.classes))
        fitted = []
        for k in targets:
            calibrator = self._new_calibrator()
            features, score = _calibrator_input(calibrator, part, scores[known, k])
            label = (rows.labels[known] == rows.classes[k]).astype(np.float64)
            given = rows.groups is not None and has_fit_parameter(calibrator, "groups")
            together = {"groups": rows.groups[known]} if given and rows.groups is not None else {}
            fitted.append(calibrator.fit(features, label, rows.weight[known], y_prob=score, **together))
        return tuple(fitted)

    def _new_calibrator(self) -> Calibrator:
        if self.calibrator is None or isinstance(self.calibrator, str):
            return make(self.calibrator or "mbct", score_column=BASE_SCORE)
        if not isinstance(self.calibrator, Calibrator):
            raise ParameterError(f"calibrator must be a calibrator or the name of a method, got {self.calibrator!r}")
        fresh: Calibrator = clone(self.calibrator).set_params(score_column=BASE_SCORE)
        return fresh

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        base = get_tags(self.estimator)
        tags.input_tags = base.input_tags
        if base.classifier_tags is not None:
            tags.classifier_tags.multi_class = base.classifier_tags.multi_class
            tags.classifier_tags.poor_score = base.classifier_tags.poor_score
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "pairs_")


@dataclass(frozen=True)
class _Rows:
    """What ``fit`` was given; ``passed_weight`` is None where no weights were."""

    X: Any
    labels: npt.NDArray[Any]
    weight: FloatArray
    passed_weight: FloatArray | None
    groups: npt.NDArray[Any] | None
    classes: npt.NDArray[Any]


def _checked_labels(y: Any) -> npt.NDArray[Any]:
    if y is None:
        raise DataError("requires y to be passed, but the target y is None")
    labels: npt.NDArray[Any] = column_or_1d(y, warn=True)
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return labels


def _class_scores(estimator: Any, X: Any, classes: npt.NDArray[Any]) -> FloatArray:
    """The classifier's probability of each of ``classes``; of margins the sigmoid or softmax."""
    if hasattr(estimator, "predict_proba"):
        own = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    else:
        margin = np.asarray(estimator.decision_function(X), dtype=np.float64)
        own = softmax(margin) if margin.ndim == 2 else np.column_stack([1.0 - sigmoid(margin), sigmoid(margin)])
    # A classifier that has not met a class gives it no probability.
    scores = np.zeros((len(own), len(classes)))
    scores[:, np.searchsorted(classes, estimator.classes_)] = own
    return _without_noise(np.clip(scores, 0.0, 1.0))


def _without_noise(scores: FloatArray) -> FloatArray:
    """Scores rounded to eleven digits.

    A matrix product gives copies of a row other last bits, depending on where in the batch they stand; rounded, they
    have one score again, and what depends on equal scores does not hang on the batch.
    """
    mantissa, exponent = np.frexp(scores)
    return np.ldexp(np.rint(mantissa * 2.0**_SCORE_BITS) / 2.0**_SCORE_BITS, exponent)


def _calibrator_input(calibrator: Calibrator, X: Any, score: FloatArray) -> tuple[Any, FloatArray | None]:
    if not calibrator.feature_aware or issparse(X):
        return {BASE_SCORE: score}, None
    if BASE_SCORE in read_columns(X):
        raise DataError(f"the column name {BASE_SCORE!r} is kept for the classifier's probability: rename that column")
    return X, score


def _calibrated(calibrator: Calibrator, X: Any, score: FloatArray) -> FloatArray:
    if list(calibrator.feature_names_in_) == [BASE_SCORE]:
        return calibrator.calibrate({BASE_SCORE: score})
    features, y_prob = _calibrator_input(calibrator, X, score)
    return calibrator.calibrate(features, y_prob=y_prob)


def _content_keys(X: Any, seed: int) -> npt.NDArray[np.uint64]:
    if issparse(X):
        return sparse_row_keys(X, seed)
    array = np.asarray(X) if not hasattr(X, "columns") else None
    return row_keys(read_columns(X if array is None else array.reshape(len(array), -1)), seed)
