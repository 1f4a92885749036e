"""Labelled rows with the prediction before and after a fitted calibrator."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from mbct.calibrators.base import Calibrator
from mbct.calibrators.fitted_mbct import fitting_rows
from mbct.calibrators.inputs import scores, take_labels, take_weights, warn
from mbct.calibrators.mbct import MBCTCalibrator
from mbct.data.columns import Columns, read_columns
from mbct.errors import ParameterError
from mbct.validation import FloatArray, same_length


@dataclass(frozen=True)
class CalibratedRows:
    """Labelled rows with the prediction before and after the calibration."""

    columns: Columns
    score: str
    y_true: FloatArray
    before: FloatArray
    after: FloatArray
    weight: FloatArray

    def fields(self, names: str | Sequence[str] | None = None) -> dict[str, npt.NDArray[Any]]:
        """Columns by name; all but the score where no name is given."""
        if names is None:
            chosen = [name for name in self.columns.names if name != self.score]
        else:
            chosen = [names] if isinstance(names, str) else list(names)
        self.columns.require(chosen)
        return {name: self.columns.numpy(name) for name in chosen}

    @property
    def move(self) -> FloatArray:
        """After / before: the multiplier that each row received; rows of equal move share a bin."""
        return np.asarray(self.after / np.maximum(self.before, 1e-300), dtype=np.float64)


def check_calibrator(calibrator: Any) -> None:
    """Raise unless a calibrator of this package was fitted to one probability."""
    if not isinstance(calibrator, Calibrator):
        raise ParameterError(
            f"a calibrator of mbct is needed, got {type(calibrator).__name__}; "
            "for other models pass their probabilities to from_predictions"
        )
    check_is_fitted(calibrator)
    if not isinstance(calibrator.score_column_, str):
        raise ParameterError(
            f"the calibrator is of {len(calibrator.score_column_)} classes, here one probability is evaluated: "
            "pass one class's column to from_predictions"
        )


def calibrated_rows(
    calibrator: Any, X: Any, y: Any, *, sample_weight: Any = None, y_prob: Any = None
) -> CalibratedRows:
    """Calibrate ``X`` and keep both predictions; ``y`` may name the label column, ``sample_weight`` the weights."""
    check_calibrator(calibrator)
    columns, labels, name = take_labels(read_columns(X), y)
    y_true = calibrator.encode_labels(labels, name)
    columns, weight = take_weights(columns, sample_weight)
    same_length(columns.n_rows, y=y_true)
    before = scores(columns, calibrator.score_column_, y_prob)[1]
    after = calibrator.calibrate_columns(columns, before)
    if isinstance(calibrator, MBCTCalibrator):
        warn(fitting_rows(calibrator.fingerprint_, y_true, before, weight), stacklevel=3)
    return CalibratedRows(columns, calibrator.score_column_, y_true, before, after, weight)
