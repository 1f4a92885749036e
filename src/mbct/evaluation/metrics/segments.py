"""Columns as segments: the group number of every row and a name for each group."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.data.columns import read_columns
from mbct.errors import DataError
from mbct.validation import as_column

MOST_NUMBERS = 100
"""A column of fractions with more distinct values than this is cut into quantiles."""
QUANTILES = 10
MISSING = "(missing)"


@dataclass(frozen=True)
class Segmentation:
    """One column: group numbers 0 … len − 1 of the rows, and the groups' names."""

    name: str
    codes: npt.NDArray[np.int64]
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)


def read_segments(by: Any) -> tuple[Segmentation, ...]:
    """Every column of a frame, a mapping or an array; a single column is called by its name, else ``segment``."""
    if _is_single_column(by):
        name = getattr(by, "name", None)
        return (segment(as_column(by, "by"), name if isinstance(name, str) and name else "segment"),)
    columns = read_columns(by)
    return tuple(segment(columns.numpy(name), name) for name in columns.names)


def read_one_column(by: Any, argument: str) -> Segmentation:
    """The segments of a single column."""
    segmentations = read_segments(by)
    if len(segmentations) != 1:
        raise DataError(f"{argument} must be one column, got {len(segmentations)}; choose one, or join them first")
    return segmentations[0]


def segment(column: npt.NDArray[Any], name: str) -> Segmentation:
    """Group rows by value; missing values are a group of their own, fractions of many values fall into ten quantiles.

    >>> import numpy as np
    >>> segment(np.array(["b", "a", None, "b"], dtype=object), "site").codes.tolist()
    [1, 0, 2, 1]
    """
    missing = _missing(column)
    present = column[~missing]
    if column.dtype.kind == "f" and _is_continuous(present):
        codes, labels = _quantiles(present)
    else:
        codes, labels = _by_value(present)
    every = np.full(len(column), len(labels), dtype=np.int64)
    every[~missing] = codes
    return Segmentation(name, every, (*labels, MISSING) if missing.any() else labels)


def _is_single_column(by: Any) -> bool:
    if isinstance(by, dict) or hasattr(by, "columns") or hasattr(by, "column_names"):
        return False
    shape = getattr(by, "shape", None)
    if shape is not None:
        return len(shape) == 1
    return isinstance(by, list | tuple) and not any(isinstance(value, list | tuple | np.ndarray) for value in by)


def _missing(column: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if column.dtype.kind == "f":
        return np.asarray(np.isnan(column), dtype=np.bool_)
    if column.dtype.kind in "mM":
        return np.asarray(np.isnat(column), dtype=np.bool_)
    if column.dtype.kind == "O":
        return np.fromiter((_is_missing(value) for value in column.tolist()), np.bool_, len(column))
    return np.zeros(len(column), dtype=np.bool_)


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def _is_continuous(values: npt.NDArray[Any]) -> bool:
    return bool(np.any(values != np.floor(values))) and len(np.unique(values)) > MOST_NUMBERS


def _quantiles(values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    edges = np.unique(np.quantile(values, np.arange(1, QUANTILES) / QUANTILES))
    codes = np.searchsorted(edges, values)
    names = [f"≤ {edges[0]:.6g}", *(f"{low:.6g} to {high:.6g}" for low, high in pairwise(edges))]
    return codes.astype(np.int64), (*names, f"> {edges[-1]:.6g}")


def _by_value(values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    if values.dtype.kind != "O":
        distinct, codes = np.unique(values, return_inverse=True)
        return codes.astype(np.int64), tuple(_name(value) for value in distinct)
    listed = values.tolist()
    order = sorted(set(listed), key=lambda value: (type(value).__name__, value))
    number = {value: i for i, value in enumerate(order)}
    return np.fromiter((number[value] for value in listed), np.int64, len(listed)), tuple(map(_name, order))


def _name(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:g}"
    return str(value)
