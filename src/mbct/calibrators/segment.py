"""Segment-wise calibration: one fit for each value of a field, a common one for the rest."""

from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.calibrators.base import Calibrator
from mbct.calibrators.inputs import TrainingData
from mbct.calibrators.registry import make
from mbct.data.columns import Columns, factorize
from mbct.errors import DataError, ParameterError
from mbct.model.encoding import category_key
from mbct.model.file_check import fault, read_object, text
from mbct.validation import FloatArray, at_least


class SegmentCalibrator(Calibrator):
    """Any method per value of a field, with the same method on all rows as fall-back.

    A segment that is too small for a fit of its own, a missing and an unseen value take the fall-back.

    Parameters
    ----------
    score_column : str, int or None, default=None
        Column of the prediction, by name or number; None where ``X`` is one column or ``y_prob`` is passed to ``fit``.
    field : str, int or None, default=None
        Column of the segments; None takes the one beside the score, if there is only one.
    segment_method, parameters : str and dict or None, default="platt" and None
        Name of the method, one of :func:`mbct.calibrators.available`, and its parameters, as ``{"n_bins": 20}``.
    min_rows, min_class_rows : float, default=200 and 10
        Least weight of a segment that is fitted on its own, and of each class in it.

    Attributes
    ----------
    field_ : str or None
        Column of the segments; None where there is no column beside the score.
    fallback_, segments_ : Calibrator, dict of str to Calibrator
        The method fitted on all rows, and on each segment, by value.
    """

    method = "segment"
    feature_aware = True

    def __init__(
        self,
        score_column: str | int | None = None,
        *,
        field: str | int | None = None,
        segment_method: str = "platt",
        parameters: dict[str, Any] | None = None,
        min_rows: float = 200,
        min_class_rows: float = 10,
    ):
        self.score_column = score_column
        self.field = field
        self.segment_method = segment_method
        self.parameters = parameters
        self.min_rows = min_rows
        self.min_class_rows = min_class_rows

    def _fit(self, data: TrainingData) -> None:
        at_least(0, min_rows=self.min_rows, min_class_rows=self.min_class_rows)
        field = self._field_name(data)
        fallback = self._make_part().fit_data(data)
        segments: dict[str, Calibrator] = {}
        if field is not None:
            for key, rows in _rows_by_key(data.columns, field):
                if key is not None and self._large_enough(data, rows):
                    segments[key] = self._make_part().fit_data(data.take(rows))
        self.field_, self.fallback_, self.segments_ = field, fallback, dict(sorted(segments.items()))

    def _calibrate(self, columns: Columns, y_prob: FloatArray) -> FloatArray:
        if self.field_ is None:
            return self.fallback_.calibrate_columns(columns, y_prob)
        calibrated = np.empty(len(y_prob))
        rows_of: dict[str | None, list[npt.NDArray[np.intp]]] = {}
        for key, rows in _rows_by_key(columns, self.field_):
            rows_of.setdefault(key if key in self.segments_ else None, []).append(rows)
        for segment, lists in rows_of.items():
            part = self.fallback_ if segment is None else self.segments_[segment]
            rows = np.concatenate(lists)
            calibrated[rows] = part.calibrate_columns(columns.take(rows), y_prob[rows])
        return calibrated

    def _field_name(self, data: TrainingData) -> str | None:
        others = [name for name in data.columns.names if name != data.score]
        if self.field is not None:
            name = data.columns.name_of(self.field)
            data.columns.require([name])
            return name
        if len(others) > 1:
            listed = ", ".join(map(repr, others[:12]))
            raise DataError(f"which column holds the segments? pass field='name'; the data has {listed}")
        return others[0] if others else None

    def _large_enough(self, data: TrainingData, rows: npt.NDArray[np.intp]) -> bool:
        weight = float(np.sum(data.weight[rows]))
        positive = float(np.sum(data.weight[rows] * data.y_true[rows]))
        rarer = min(positive, weight - positive)
        return weight >= self.min_rows and rarer >= self.min_class_rows and rarer > 0.0

    def _make_part(self) -> Calibrator:
        parameters = self.parameters or {}
        if not isinstance(parameters, dict) or "score_column" in parameters:
            raise ParameterError(f"parameters must be a dictionary without 'score_column', got {self.parameters!r}")
        try:
            return make(self.segment_method, **parameters)
        except TypeError as error:
            raise ParameterError(f"parameters do not fit the method {self.segment_method!r}: {error}") from error

    def _state(self) -> dict[str, Any]:
        segments = {key: part._state() for key, part in self.segments_.items()}
        return {"field": self.field_, "fallback": self.fallback_._state(), "segments": segments}

    def _restore(self, state: dict[str, Any]) -> None:
        read_object(state, "state", ("field", "fallback", "segments"))
        self.field_ = state["field"]
        if self.field_ is not None and text(self.field_, "state.field") not in self.feature_names_in_:
            raise fault("state.field", self.field_, f"one of the columns {self.feature_names_in_.tolist()}")
        self.fallback_ = self._restore_part(state["fallback"])
        segments = read_object(state["segments"], "state.segments", ())
        self.segments_ = {text(key, "state.segments"): self._restore_part(segments[key]) for key in sorted(segments)}

    def _restore_part(self, state: dict[str, Any]) -> Calibrator:
        part = self._make_part()
        part._remember(self.score_column_, self.feature_names_in_.tolist(), self._labels)
        part._restore(state)
        return part


def _rows_by_key(columns: Columns, field: str) -> list[tuple[str | None, npt.NDArray[np.intp]]]:
    """Row numbers of each value of a column, by the value's canonical text; None where it is missing."""
    values, position = factorize(columns.column(field))
    code_of = {key: code for code, key in enumerate(dict.fromkeys(category_key(v) for v in values))}
    code = np.array([code_of[category_key(v)] for v in values], dtype=np.intp)[position]
    order = np.argsort(code, kind="stable")
    ends = np.cumsum(np.bincount(code, minlength=len(code_of)))
    return [(key, rows) for key, rows in zip(code_of, np.split(order, ends[:-1]), strict=True)]
