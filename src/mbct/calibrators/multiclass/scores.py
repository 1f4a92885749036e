"""Methods that calibrate all classes at once: one score column for each class in, probabilities that sum to one out."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mbct.calibrators.base import Calibrator
from mbct.calibrators.inputs import TrainingData, take_blocks, take_labels, take_weights, training_data
from mbct.data.columns import Columns, read_columns
from mbct.errors import DataError
from mbct.model.class_model import ClassModel
from mbct.model.file_check import read_classes, read_object
from mbct.training.folds import BlockColumns, BlockNumbers
from mbct.validation import ClassLabels, FloatArray, as_probabilities, class_labels, listed, same_length


@dataclass(frozen=True)
class ClassRows:
    """Checked rows: the columns beside label, weight and scores, and the scores, one column for each class."""

    columns: Columns
    probabilities: FloatArray
    block: BlockNumbers | None = None
    blocks: BlockColumns | None = None

    def take(self, rows: npt.NDArray[np.intp]) -> "ClassRows":
        """The rows whose numbers are given."""
        block = None if self.block is None else self.block[rows]
        return ClassRows(self.columns.take(rows), self.probabilities[rows], block, self.blocks)


class ManyScores(Calibrator):
    """Base of methods with K scores.

    ``score_column`` names one column for each class, in the order of ``classes`` (default: the sorted labels); labels
    are then of any type and ``calibrate`` gives K columns. With a single score column such a method is binary like the
    others, on (1 − p, p). A method defines ``_fit_classes`` and ``_calibrate_classes``.
    """

    score_column: str | int | Sequence[str | int] | None  # type: ignore[assignment]  # K columns, where the base has one
    classes: Sequence[Any] | None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, y_prob: Any = None, trials: Any = None) -> Self:
        """Learn the calibration of K score columns from labels.

        Parameters
        ----------
        X, y, sample_weight : as in :meth:`mbct.calibrators.Calibrator.fit`
            Rows with the score columns, labels of any number of classes, and weights.
        y_prob : array of shape (n_rows, K) or (n_rows,), or None, default=None
            The scores, one column for each class, where they are no columns of ``X``.
        trials : as in :meth:`mbct.calibrators.Calibrator.fit`
            With one score column alone.
        """
        columns, labels, label_name = take_labels(read_columns(X), y)
        columns, weight = take_weights(columns, sample_weight)
        blocks = self._block_columns()
        columns, block = take_blocks(columns, blocks)
        names = self._score_names(columns.without(trials) if isinstance(trials, str) else columns, y_prob)
        if trials is not None and len(names) > 1:
            raise DataError("trials count the positives of two classes: pass a row for each class with its weight")
        if len(names) == 1:
            score = self.score_column if isinstance(self.score_column, str | int) else names[0]
            return self.fit_data(training_data(X, y, sample_weight, y_prob, score, blocks=blocks, trials=trials))
        rows = replace(class_rows(columns, names, y_prob), block=block, blocks=blocks)
        same_length(columns.n_rows, y=labels)
        classes, code = class_labels(labels, label_name, self.classes)
        if len(classes) != len(names):
            raise DataError(
                f"{len(names)} score columns, but {label_name} has {len(classes)} classes ({listed(classes)}): "
                "pass one score column for each class, and classes=… where a class is missing from the labels"
            )
        counted = np.flatnonzero(weight > 0)
        if len(np.unique(code[counted])) < 2:
            raise DataError(f"{label_name} has a single class: at least two are needed; widen the sample")
        self._fit_classes(rows.take(counted), code[counted], weight[counted])
        self._remember(names, columns.names, ClassLabels(classes))  # type: ignore[arg-type]  # K names, not one
        return self

    def fit_rows(self, rows: ClassRows, code: npt.NDArray[np.intp], weight: FloatArray) -> Self:
        """:meth:`fit` on checked rows, all of positive weight; ``code`` numbers the class of each."""
        self._fit_classes(rows, code, weight)
        return self

    def calibrate_rows(self, rows: ClassRows) -> FloatArray:
        """:meth:`calibrate` on checked rows."""
        return self._calibrate_classes(rows)

    def calibrate(self, X: Any, *, y_prob: Any = None) -> FloatArray:
        """Calibrated probabilities, a column a class, or of the positive class where one score column was fitted.

        ``X`` and ``y_prob`` are as in :meth:`fit`.
        """
        if self._is_binary:
            return super().calibrate(X, y_prob=y_prob)
        return self._calibrate_classes(class_rows(read_columns(X), self.score_column_, y_prob))

    def predict_proba(self, X: Any, *, y_prob: Any = None) -> FloatArray:
        """Calibrated probabilities, columns in the order of ``classes_``; ``X`` and ``y_prob`` as in :meth:`fit`."""
        if self._is_binary:
            return super().predict_proba(X, y_prob=y_prob)
        return self.calibrate(X, y_prob=y_prob)

    def predict(self, X: Any, *, y_prob: Any = None) -> npt.NDArray[Any]:
        """The most probable class of each row; ``X`` and ``y_prob`` as in :meth:`fit`."""
        likeliest = np.argmax(self.predict_proba(X, y_prob=y_prob), axis=1)
        return np.asarray(self.classes_[likeliest])

    def _log_losses(self, columns: Columns, labels: npt.NDArray[Any], name: str, y_prob: Any) -> FloatArray:
        if self._is_binary:
            return super()._log_losses(columns, labels, name, y_prob)
        code = class_labels(labels, name, self.classes_)[1]
        calibrated = self._calibrate_classes(class_rows(columns, self.score_column_, y_prob))
        given = calibrated[np.arange(len(code)), code]
        return np.asarray(-np.log(np.clip(given, np.finfo(np.float64).eps, 1.0)), dtype=np.float64)

    def _fit(self, data: TrainingData) -> None:
        counted = data.counted()
        code = counted.y_true.astype(np.intp)
        rows = _both(counted.columns.without(data.score), counted.y_prob)
        self._fit_classes(replace(rows, block=counted.block, blocks=counted.blocks), code, counted.weight)

    def _calibrate(self, columns: Columns, y_prob: FloatArray) -> FloatArray:
        return self._calibrate_classes(_both(columns, y_prob))[:, 1]

    def _restored_classes(self, state: Any) -> npt.NDArray[Any]:
        """The classes in a saved state: as many as score columns, or two where there is one."""
        n_classes = 2 if self._is_binary else len(self.score_column_)
        return read_classes(read_object(state, "state", ("classes",))["classes"], "state.classes", n_classes)

    @property
    def model_(self) -> ClassModel:
        """The frozen model, which exports and the service take, of a calibrator with a score column for each class."""
        if self._is_binary:
            raise AttributeError(f"a {self.method!r} calibrator of one score column has no model of many classes")
        return self._class_model(tuple(self.score_column_), tuple(map(str, self.classes_.tolist())))

    @property
    def _is_binary(self) -> bool:
        """Whether one score column was fitted."""
        return isinstance(getattr(self, "score_column_", ""), str)

    def _block_columns(self) -> BlockColumns | None:
        """Which rows belong together; None for methods that do not ask."""
        return None

    @abstractmethod
    def _fit_classes(self, rows: ClassRows, code: npt.NDArray[np.intp], weight: FloatArray) -> None:
        """Learn from rows of positive weight; ``code`` numbers the class of each."""

    @abstractmethod
    def _class_model(self, scores: tuple[str, ...], classes: tuple[str, ...]) -> ClassModel:
        """The fitted state by the names of its score columns and classes."""

    @abstractmethod
    def _calibrate_classes(self, rows: ClassRows) -> FloatArray:
        """Calibrated probabilities of all classes."""

    def _score_names(self, columns: Columns, y_prob: Any) -> list[str]:
        if y_prob is not None:
            width = np.asarray(y_prob).shape[1] if np.ndim(y_prob) == 2 else 1
            return ["y_prob"] if width == 1 else [f"y_prob_{k}" for k in range(width)]
        if self.score_column is None:
            return columns.names
        many = [self.score_column] if isinstance(self.score_column, str | int) else self.score_column
        return [columns.name_of(name) for name in many]


def _both(columns: Columns, y_prob: FloatArray) -> ClassRows:
    return ClassRows(columns, np.column_stack([1.0 - y_prob, y_prob]))


def class_rows(columns: Columns, names: Sequence[str], y_prob: Any = None) -> ClassRows:
    """The rows of columns that hold the scores ``names``, or of columns and a matrix of scores beside them."""
    if y_prob is None:
        scores = [as_probabilities(columns.numpy(n), f"score column {n!r}") for n in names]
        return ClassRows(columns.without(*names), np.column_stack(scores))
    matrix = np.asarray(y_prob)
    if matrix.ndim != 2 or matrix.shape[1] != len(names):
        raise DataError(f"y_prob must have {len(names)} columns, one for each class, got shape {matrix.shape}")
    same_length(columns.n_rows, y_prob=matrix)
    scores = [as_probabilities(matrix[:, k], f"y_prob[:, {k}]") for k in range(len(names))]
    return ClassRows(columns, np.column_stack(scores))
