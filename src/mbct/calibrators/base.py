"""The one interface of every calibration method: a score column in, calibrated probabilities out."""

import os
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mbct.calibrators import persistence
from mbct.calibrators.inputs import TrainingData, scores, training_data
from mbct.data.columns import Columns, read_columns
from mbct.errors import DataError
from mbct.validation import FloatArray


class Calibrator(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn ships no types
    """Base of all calibrators: ``fit``, ``predict_proba``, ``calibrate``, ``predict``, ``save``.

    A method defines ``_fit``, ``_calibrate``, ``_state`` and ``_restore``.
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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, y_prob: Any = None) -> Self:
        """Learn the calibration of ``X``'s score column (or of ``y_prob``) from the labels ``y``.

        ``X`` is any frame that narwhals reads, a numpy array or a single column of scores; ``y`` an array of
        0 and 1 or the name of the label column in ``X``.
        """
        return self.fit_data(
            training_data(X, y, sample_weight, y_prob, self.score_column, one_class=self.accepts_one_class)
        )

    def fit_data(self, data: TrainingData) -> Self:
        """:meth:`fit` on rows that were checked before."""
        self._fit(data)
        self._remember(data.score, data.columns.names)
        return self

    def calibrate(self, X: Any, *, y_prob: Any = None) -> FloatArray:
        """Calibrated probability of the positive class for each row of ``X``."""
        return self.calibrate_columns(*self._read(X, y_prob))

    def calibrate_columns(self, columns: Columns, y_prob: FloatArray) -> FloatArray:
        """:meth:`calibrate` on rows that were checked before."""
        return np.clip(self._calibrate(columns, y_prob), 0.0, 1.0)

    def predict_proba(self, X: Any, *, y_prob: Any = None) -> FloatArray:
        """Calibrated probabilities of both classes, shape (n, 2)."""
        positive = self.calibrate(X, y_prob=y_prob)
        return np.column_stack([1.0 - positive, positive])

    def predict(self, X: Any, *, y_prob: Any = None) -> np.ndarray[Any, Any]:
        """1 where the calibrated probability exceeds one half."""
        exceeds = self.calibrate(X, y_prob=y_prob) > 0.5
        return np.asarray(self.classes_[exceeds.astype(int)])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted calibrator as JSON, whole or not at all."""
        check_is_fitted(self)
        persistence.save(self, path)

    def _read(self, X: Any, y_prob: Any) -> tuple[Columns, FloatArray]:
        """The columns and scores of rows to calibrate."""
        check_is_fitted(self)
        columns = read_columns(X)
        if y_prob is None and self.score_column_ not in self.feature_names_in_ and self.score_column_ not in columns:
            raise DataError("the scores were given apart when this calibrator was fitted: pass y_prob=… here too")
        # A lone column is the score whatever it is called now, if it was alone and the score at fitting.
        alone = len(columns.names) == 1 and list(self.feature_names_in_) == [self.score_column_]
        return columns, scores(columns, columns.names[0] if alone else self.score_column_, y_prob)[1]

    def _remember(self, score_column: str, columns: list[str]) -> None:
        """Keep what was fitted on; called last, so that a failed fit leaves no calibrator that looks fitted."""
        self.score_column_ = score_column
        self.feature_names_in_ = np.asarray(columns, dtype=object)
        self.n_features_in_ = len(columns)
        self.classes_ = np.array([0, 1])

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
