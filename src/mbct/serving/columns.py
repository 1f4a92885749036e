"""From a column of raw values to its codes, by the fastest way that its types allow."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.errors import DataError
from mbct.model.bins import CategoryBins, Feature, NumberBins, interval_codes
from mbct.model.encoding import category_key
from mbct.serving.values import as_float
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
        if isinstance(feature, NumberBins):
            self._edges = np.array(feature.edges, dtype=np.float64)
        else:
            integers = {int(k): code for k, code in feature.code_of.items() if k is not None and _is_integer(k)}
            self._code_of_value = _CodeOfValue(feature.code_of, feature)
            self._code_of_integer = _CodeOfValue({**integers, None: feature.missing}, feature)

    def __call__(self, column: Any) -> Codes:
        """Codes of a column."""
        if isinstance(column, Coded):
            return column.codes
        if isinstance(column, Encoded):
            return np.take(self(column.values), column.position)
        if isinstance(self._feature, NumberBins):
            return interval_codes(_floats(column), self._edges)
        return self._categories(column.tolist() if isinstance(column, np.ndarray) else column, self._feature)

    def _categories(self, values: Sequence[Any], feature: CategoryBins) -> Codes:
        first = type(values[0]) if len(values) else str
        try:
            if first is str:
                return self._code_of_value.of_all(values)
            # True is 1 to a dictionary: integers are looked up as such only where there is nothing else.
            if set(map(type, values)) <= {int, type(None)}:
                return self._code_of_integer.of_all(values)
        except TypeError:  # A value that cannot be looked up, such as a list.
            pass
        return feature.encode(values)


class _CodeOfValue(dict[Any, int]):
    """Codes by value. Looking up a whole column runs in C but for values that are no known text, or integer."""

    def __init__(self, codes: Mapping[Any, int], feature: CategoryBins) -> None:
        super().__init__(codes)
        self._code_of_text, self._unseen = feature.code_of, feature.unseen

    def __missing__(self, value: Any) -> int:
        return self._unseen if type(value) is str else self._code_of_text.get(category_key(value), self._unseen)

    def of_all(self, values: Sequence[Any]) -> Codes:
        return _packed("q", map(self.__getitem__, values), np.empty(len(values), np.int64))


def probability_column(column: Any, name: str) -> Any:
    """Predictions as numbers, still to be checked; what cannot be one is named."""
    if isinstance(column, np.ndarray):
        return column
    try:
        return _packed("d", column, np.empty(len(column)))
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
        return _packed("d", column, np.empty(len(column)))
    except (struct.error, OverflowError):
        pass
    try:
        return np.array(column, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.array([as_float(value) for value in column], dtype=np.float64)


def _packed(kind: str, values: Any, into: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Write Python numbers into an array: a quarter of the time that numpy takes to make one of them."""
    struct.pack_into(f"{len(into)}{kind}", into.data, 0, *values)
    return into


def _is_integer(key: str) -> bool:
    """Whether a category's text is what an integer would become: '7' is, '07' is not."""
    try:
        return category_key(int(key)) == key
    except ValueError:
        return False
