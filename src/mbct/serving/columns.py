"""From a column of raw values to its codes, by the fastest way that its types allow."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.errors import DataError
from mbct.model.bins import Feature, NumberBins, interval_codes, packed
from mbct.model.encoding import as_float
from mbct.validation import FloatArray

Codes = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Encoded:
    """A dictionary-encoded column: distinct values and each row's position among them."""

    values: Sequence[Any]
    position: npt.NDArray[np.integer[Any]]

    def __len__(self) -> int:
        return len(self.position)


@dataclass(frozen=True, eq=False)
class Coded:
    """A column whose codes are known already."""

    codes: npt.NDArray[np.integer[Any]]

    def __len__(self) -> int:
        return len(self.codes)


class ColumnEncoder:
    """Codes of columns of one feature: lists, numpy arrays, :class:`Encoded` or :class:`Coded`."""

    def __init__(self, feature: Feature) -> None:
        self._feature = feature
        self._edges = np.array(feature.edges if isinstance(feature, NumberBins) else (), dtype=np.float64)

    def __call__(self, column: Any) -> Codes:
        """Codes of a column."""
        if isinstance(column, Coded):
            return column.codes
        if isinstance(column, Encoded):
            return np.take(self(column.values), column.position)
        if isinstance(self._feature, NumberBins):
            return interval_codes(_floats(column), self._edges)
        return self._feature.encode(column.tolist() if isinstance(column, np.ndarray) else column)


def probability_column(column: Any, name: str) -> Any:
    """Predictions as numbers, still to be checked; what cannot be one is named."""
    if isinstance(column, np.ndarray):
        return column
    try:
        return packed("d", column, np.empty(len(column)))
    except (struct.error, OverflowError):
        pass
    for row, value in enumerate(column):
        if value is None or isinstance(value, str | bytes):
            raise DataError(f"{name} must be a probability, got {value!r} in row {row}; pass numbers between 0 and 1")
    return np.array([as_float(value) for value in column], dtype=np.float64)


def _floats(column: Any) -> FloatArray:
    if isinstance(column, np.ndarray) and column.dtype.kind in "iufb":
        return np.ascontiguousarray(column, dtype=np.float64)
    try:
        return packed("d", column, np.empty(len(column)))
    except (struct.error, OverflowError):
        pass
    try:
        return np.array(column, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.array([as_float(value) for value in column], dtype=np.float64)
