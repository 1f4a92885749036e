"""The one interface of every calibration method: a score column in, calibrated probabilities out."""

import os
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mbct.calibrators import persistence
from mbct.calibrators.inputs import TrainingData, scores, take_labels, take_weights, training_data
from mbct.data.columns import Columns, read_columns
from mbct.errors import DataError
from mbct.notebook import html_facts
from mbct.stats.probabilities import log_losses
from mbct.validation import ClassLabels, FloatArray, same_length


class Calibrator(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn ships no types
    """Base of all calibrators, scikit-learn classifiers whose input is a probability.

    A method defines ``_fit``, ``_calibrate``, ``_state`` and ``_restore``.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The classes of the labels, sorted; the columns of ``predict_proba`` are in their order.
    positive_ : int
        Position in ``classes_`` of the positive class, whose probability the score is: 1 unless ``positive`` was given.
    score_column_ : str
        Column of the prediction that was calibrated.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Columns of ``X`` at fitting, without the label and the weight.
    n_features_in_ : int
        Their number.
    """

    method: ClassVar[str]
    """Name in the registry and in model files."""
    accepts_one_class: ClassVar[bool] = False
    """Whether labels that are all equal give a result instead of an error."""
    monotone: ClassVar[bool] = False
    """Whether a higher score never gets a lower calibrated probability, whatever the data."""
    strict: ClassVar[bool] = False
    """Whether, on data whose labels rise with the score, a higher score in [1e-9, 1 − 1e-9] gets a higher result."""
    feature_aware: ClassVar[bool] = False
    """Whether columns other than the score change the result."""
    run_parameters: ClassVar[frozenset[str]] = frozenset()
    """Parameters that say how to run, not what to fit; they stay out of model files."""

    score_column: str | int | None
    positive: Any = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, y_prob: Any = None, trials: Any = None) -> Self:
        """Learn the calibration of ``X``'s score column from labels.

        Parameters
        ----------
        X : data frame, array of shape (n_rows, n_columns), mapping of columns, or one column of scores
            Any frame that narwhals reads (pandas, polars, pyarrow …). The score column holds probabilities.
        y : array of shape (n_rows,) or str
            Labels of two classes of any type (0 and 1, booleans, text), or the name of the label column in ``X``.
            Fractions in [0, 1] count as that share of a positive and the rest of a negative row.
        sample_weight : array of shape (n_rows,), str or None, default=None
            Weight of each row, or the name of the weight column in ``X``. A weight of k equals k copies of the row.
        y_prob : array of shape (n_rows,) or None, default=None
            The prediction, where it is no column of ``X``.
        trials : array of shape (n_rows,), str or None, default=None
            Number of rows that each one stands for, or the name of that column; ``y`` then counts the positives.
        """
        one_class = self.accepts_one_class
        return self.fit_data(
            training_data(
                X,
                y,
                sample_weight,
                y_prob,
                self.score_column,
                one_class=one_class,
                positive=self.positive,
                trials=trials,
            )
        )

    def fit_data(self, data: TrainingData) -> Self:
        """:meth:`fit` on rows that were checked before."""
        self._fit(data)
        self._remember(data.score, data.columns.names, data.labels)
        return self

    def calibrate(self, X: Any, *, y_prob: Any = None) -> FloatArray:
        """Calibrated probability of the positive class of each row.

        Parameters
        ----------
        X, y_prob : as in :meth:`fit`
            The rows; their predictions where ``X`` does not hold them.

        Returns
        -------
        ndarray of shape (n_rows,)
            In the order of the rows.
        """
        return self.calibrate_columns(*self._read(X, y_prob))

    def calibrate_columns(self, columns: Columns, y_prob: FloatArray) -> FloatArray:
        """:meth:`calibrate` on rows that were checked before."""
        return np.clip(self._calibrate(columns, y_prob), 0.0, 1.0)

    def predict_proba(self, X: Any, *, y_prob: Any = None) -> FloatArray:
        """Calibrated probabilities of both classes.

        Parameters
        ----------
        X, y_prob : as in :meth:`fit`
            The rows; their predictions where ``X`` does not hold them.

        Returns
        -------
        ndarray of shape (n_rows, 2)
            Columns in the order of ``classes_``.
        """
        probability = self.calibrate(X, y_prob=y_prob)
        both = np.column_stack([1.0 - probability, probability])
        return both if self.positive_ == 1 else both[:, ::-1]

    def predict(self, X: Any, *, y_prob: Any = None) -> npt.NDArray[Any]:
        """The class of each row, the positive one where its calibrated probability exceeds one half.

        Parameters
        ----------
        X, y_prob : as in :meth:`fit`
            The rows; their predictions where ``X`` does not hold them.

        Returns
        -------
        ndarray of shape (n_rows,)
            Values of ``classes_``.
        """
        exceeds = self.calibrate(X, y_prob=y_prob) > 0.5
        return np.asarray(self._labels.negative_and_positive[exceeds.astype(int)])

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, y_prob: Any = None) -> float:
        """Mean log-likelihood of the labels, (1/Σw) Σ w·log(probability given to the row's class); higher is better.

        This is the negative log loss, with probabilities kept 2.2e-16 from 0 and 1. Cross-validation and searches
        without ``scoring`` use it.

        Parameters
        ----------
        X, y, sample_weight, y_prob : as in :meth:`fit`
            Rows, best held out, their labels, weights and predictions.

        Returns
        -------
        float
            The negative log loss.
        """
        columns, labels, name = take_labels(self._open(X), y)
        columns, weight = take_weights(columns, sample_weight)
        same_length(columns.n_rows, y=labels)
        losses = self._log_losses(columns, labels, name, y_prob)
        return -float(np.average(losses, weights=weight))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted calibrator as JSON, whole or not at all; :func:`mbct.load_model` reads it.

        Parameters
        ----------
        path : str or path
            The file; an older one is replaced.
        """
        check_is_fitted(self)
        persistence.save(self, path)

    def _log_losses(self, columns: Columns, labels: npt.NDArray[Any], name: str, y_prob: Any) -> FloatArray:
        y_true = self.encode_labels(labels, name)
        return log_losses(self.calibrate_columns(*self._scored(columns, y_prob)), y_true)

    def _read(self, X: Any, y_prob: Any) -> tuple[Columns, FloatArray]:
        """The columns and scores of rows to calibrate."""
        return self._scored(self._open(X), y_prob)

    def _open(self, X: Any) -> Columns:
        check_is_fitted(self)
        columns = read_columns(X)
        if isinstance(X, np.ndarray | list) and len(columns.names) != self.n_features_in_:
            raise DataError(
                f"X has {len(columns.names)} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                f"features as input{'. Reshape your data: one row for each sample' if np.ndim(X) == 1 else ''}"
            )
        return columns

    def _scored(self, columns: Columns, y_prob: Any) -> tuple[Columns, FloatArray]:
        if y_prob is None and self.score_column_ not in self.feature_names_in_ and self.score_column_ not in columns:
            raise DataError("the scores were given apart when this calibrator was fitted: pass y_prob=… here too")
        # A lone column is the score whatever it is called now, if it was alone and the score at fitting.
        alone = len(columns.names) == 1 and list(self.feature_names_in_) == [self.score_column_]
        return columns, scores(columns, columns.names[0] if alone else self.score_column_, y_prob)[1]

    def encode_labels(self, labels: npt.NDArray[Any], name: str = "y") -> FloatArray:
        """1.0 for each label of the positive class, 0.0 for the other; ``name`` stands in messages."""
        return self._labels.encode(labels, name)

    @property
    def _labels(self) -> ClassLabels:
        return ClassLabels(self.classes_, self.positive_)

    def _remember(self, score_column: str, columns: list[str], labels: ClassLabels) -> None:
        """Keep what was fitted on; called last, so that a failed fit leaves no calibrator that looks fitted."""
        self.score_column_ = score_column
        self.feature_names_in_ = np.asarray(columns, dtype=object)
        self.n_features_in_ = len(columns)
        self.positive_ = labels.positive
        self.classes_ = labels.classes

    @abstractmethod
    def _fit(self, data: TrainingData) -> None:
        """Store what is learned from checked rows."""

    @abstractmethod
    def _calibrate(self, columns: Columns, y_prob: FloatArray) -> FloatArray:
        """Calibrated probabilities of checked rows; changes nothing."""

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """What was learned, as plain JSON."""

    @abstractmethod
    def _restore(self, state: dict[str, Any]) -> None:
        """Undo :meth:`_state`."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # how well classes are separated is up to the base
        tags.input_tags.string = self.feature_aware
        return tags

    def _facts(self) -> dict[str, Any]:
        """What a notebook shows of a fitted calibrator."""
        named = ", ".join(f"{key}={value!r}" for key, value in self.get_params(deep=False).items() if value is not None)
        if not self.__sklearn_is_fitted__():
            return {"method": self.method, "parameters": named, "state": "not fitted"}
        positive = self.classes_[self.positive_] if len(self.classes_) == 2 else "–"
        return {
            "method": self.method,
            "parameters": named,
            "prediction": self.score_column_,
            "columns": ", ".join(self.feature_names_in_),
            "classes": ", ".join(map(str, self.classes_)),
            "positive class": positive,
        }

    def _repr_html_(self) -> str:
        return html_facts(type(self).__name__, self._facts())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        # Notebooks ask for this first, and scikit-learn's own would show the parameters alone.
        return {"text/plain": repr(self), "text/html": self._repr_html_()}
