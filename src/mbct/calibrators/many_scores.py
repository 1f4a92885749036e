"""Methods that calibrate all classes at once: one score column for each class in, probabilities that sum to one out."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mbct.calibrators.base import Calibrator
from mbct.calibrators.inputs import TrainingData, class_labels, take_labels, take_weights
from mbct.engines.columns import Columns, column_name, read_columns
from mbct.errors import DataError
from mbct.validation import FloatArray, as_probabilities, same_length


class ManyScores(Calibrator):
    """Base of methods with K scores.

    ``score`` names one column for each class, in the order of ``classes`` (default: the sorted labels); labels are
    then of any type and ``calibrate`` gives K columns. With a single score column such a method is binary like the
    others, on (1 − p, p). A method defines ``_fit_classes`` and ``_calibrate_classes``.
    """

    score: str | int | Sequence[str | int] | None  # type: ignore[assignment]
    classes: Sequence[Any] | None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, y_prob: Any = None) -> Self:
        """Learn the calibration of K score columns; ``y_prob`` may be a matrix with one column for each class."""
        columns, labels, label_name = take_labels(read_columns(X), y)
        columns, weight = take_weights(columns, sample_weight)
        names = self._score_names(columns, y_prob)
        if len(names) == 1:
            super().fit(X, y, sample_weight, y_prob=y_prob)
            return self
        probabilities = _matrix(columns, names, y_prob)
        same_length(columns.n_rows, y=labels)
        classes, code = class_labels(labels, label_name, self.classes)
        if len(classes) != len(names):
            raise DataError(
                f"{len(names)} score columns, but {label_name} has {len(classes)} classes ({_listed(classes)}): "
                "pass one score column for each class, and classes=… where a class is missing from the labels"
            )
        counted = np.flatnonzero(weight > 0)
        if len(np.unique(code[counted])) < 2:
            raise DataError(f"{label_name} has a single class: at least two are needed; widen the sample")
        self._fit_classes(columns.take(counted), names, probabilities[counted], code[counted], weight[counted])
        self._remember(names, columns.names)  # type: ignore[arg-type]
        self.classes_ = classes
        return self

    def calibrate(self, X: Any, *, y_prob: Any = None) -> FloatArray:
        """Calibrated probabilities: K columns, or those of the positive class where one score column was fitted."""
        if isinstance(getattr(self, "score_", ""), str):
            return super().calibrate(X, y_prob=y_prob)
        columns = read_columns(X)
        return self._calibrate_classes(columns, _matrix(columns, self.score_, y_prob))

    def predict_proba(self, X: Any, *, y_prob: Any = None) -> FloatArray:
        """Calibrated probabilities of all classes, in the order of ``classes_``."""
        calibrated = self.calibrate(X, y_prob=y_prob)
        return calibrated if calibrated.ndim == 2 else np.column_stack([1.0 - calibrated, calibrated])

    def predict(self, X: Any, *, y_prob: Any = None) -> np.ndarray[Any, Any]:
        """The most probable class."""
        likeliest = np.argmax(self.predict_proba(X, y_prob=y_prob), axis=1)
        return np.asarray(self.classes_[likeliest])

    def _fit(self, data: TrainingData) -> None:
        counted = data.counted()
        code = counted.y_true.astype(np.intp)
        self._fit_classes(counted.columns, [data.score], _both(counted.y_prob), code, counted.weight)

    def _calibrate(self, columns: Columns, y_prob: FloatArray) -> FloatArray:
        return self._calibrate_classes(columns, _both(y_prob))[:, 1]

    @abstractmethod
    def _fit_classes(
        self,
        columns: Columns,
        names: list[str],
        probabilities: FloatArray,
        code: npt.NDArray[np.intp],
        weight: FloatArray,
    ) -> None:
        """Learn from rows of positive weight: the scores of all classes, and the number of each row's class."""

    @abstractmethod
    def _calibrate_classes(self, columns: Columns, probabilities: FloatArray) -> FloatArray:
        """Calibrated probabilities of all classes."""

    def _score_names(self, columns: Columns, y_prob: Any) -> list[str]:
        if y_prob is not None:
            width = np.asarray(y_prob).shape[1] if np.ndim(y_prob) == 2 else 1
            return ["y_prob"] if width == 1 else [f"y_prob_{k}" for k in range(width)]
        if self.score is None:
            return columns.names
        many = [self.score] if isinstance(self.score, str | int) else self.score
        return [column_name(name) for name in many]


def _both(y_prob: FloatArray) -> FloatArray:
    return np.column_stack([1.0 - y_prob, y_prob])


def _matrix(columns: Columns, names: Sequence[str], y_prob: Any) -> FloatArray:
    if y_prob is None:
        return np.column_stack([as_probabilities(columns.numpy(n), f"score column {n!r}") for n in names])
    matrix = np.asarray(y_prob)
    if matrix.ndim != 2 or matrix.shape[1] != len(names):
        raise DataError(f"y_prob must have {len(names)} columns, one for each class, got shape {matrix.shape}")
    same_length(columns.n_rows, y_prob=matrix)
    return np.column_stack([as_probabilities(matrix[:, k], f"y_prob[:, {k}]") for k in range(len(names))])


def _listed(classes: np.ndarray[Any, Any]) -> str:
    return ", ".join(map(repr, classes.tolist()[:8])) + (" …" if len(classes) > 8 else "")
