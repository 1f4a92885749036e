"""Distinct values of a column and which of them each row holds."""

import decimal
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

_MOST_COUNTED = 1_000_000
"""Widest range of integers that are counted one by one."""


def is_number(column: Any) -> bool:
    """Whether a column holds numbers (booleans, dates and text are none)."""
    if isinstance(column, nw.Series):
        return bool(column.dtype.is_numeric())
    if column.dtype.kind == "O":
        numbers = (int, float, np.number, decimal.Decimal)
        return all(isinstance(v, numbers) and not isinstance(v, bool) for v in column if v is not None)
    return bool(column.dtype.kind in "iuf")


def as_floats(column: Any) -> npt.NDArray[np.float64]:
    """A column as float64, with NaN for what is missing or no number at all."""
    if isinstance(column, nw.Series):
        if column.dtype.is_numeric():
            return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)
        column = np.asarray(column.to_list(), dtype=object)
    if column.dtype.kind in "iufb":
        return np.asarray(column, dtype=np.float64)
    return np.array([_float_or_nan(value) for value in column.tolist()], dtype=np.float64)


def factorize(column: Any) -> tuple[list[Any], npt.NDArray[np.intp]]:
    """Distinct values, in no particular order, and the position among them of each row's value.

    >>> values, position = factorize(np.array(["b", "a", "b"]))
    >>> [values[i] for i in position]
    ['b', 'a', 'b']
    """
    if isinstance(column, nw.Series):
        if column.dtype.is_integer() and 0 < column.null_count() < len(column):
            return _factorize_with_nulls(column)
        if column.dtype.is_numeric() or column.dtype == nw.Boolean:
            column = column.to_numpy()
        elif column.implementation.is_pandas():
            codes, values = column.implementation.to_native_namespace().factorize(
                column.to_native(), use_na_sentinel=False
            )
            return list(values), np.asarray(codes, dtype=np.intp)
        elif column.implementation.is_polars() and column.dtype == nw.String:
            return _factorize_texts(column)
        elif column.implementation.is_pyarrow() and column.dtype == nw.String:
            encoded = column.to_native().combine_chunks().dictionary_encode("encode")
            return encoded.dictionary.to_pylist(), np.asarray(encoded.indices, dtype=np.intp)
    if isinstance(column, np.ndarray) and column.dtype.kind in "iu" and len(column) and (narrow := _narrow(column)):
        return narrow
    if isinstance(column, np.ndarray) and column.dtype.kind in "iufbM":
        distinct, position = np.unique(column, return_inverse=True)
        return list(distinct), np.asarray(position, dtype=np.intp)
    return _factorize_objects(column.tolist() if isinstance(column, np.ndarray) else column.to_list())


def _factorize_with_nulls(column: nw.Series[Any]) -> tuple[list[Any], npt.NDArray[np.intp]]:
    """Integers some of which are missing: as floats, which numpy would make of them, large ones would change."""
    values, position = factorize(column.fill_null(column.min()))
    return [*values, None], np.where(column.is_null().to_numpy(), len(values), position)


def _factorize_texts(column: nw.Series[Any]) -> tuple[list[Any], npt.NDArray[np.intp]]:
    """Numbered by the frame's own library, which makes no Python object of a row."""
    values = column.unique().to_list()
    position = column.replace_strict(values, range(len(values)), return_dtype=nw.Int64)
    return values, np.asarray(position.to_numpy(), dtype=np.intp)


def _narrow(column: npt.NDArray[Any]) -> tuple[list[Any], npt.NDArray[np.intp]] | None:
    """Integers that lie close together are counted, which is many times faster than sorting; None for others."""
    least, most = int(column.min()), int(column.max())
    if most - least > min(len(column), _MOST_COUNTED):
        return None
    wide = column.astype(np.intp) if column.dtype.kind == "i" else column
    shifted = (wide - wide.dtype.type(least)).astype(np.intp)
    distinct = np.flatnonzero(np.bincount(shifted))
    position = np.empty(most - least + 1, dtype=np.intp)
    position[distinct] = np.arange(len(distinct))
    return list((distinct.astype(wide.dtype) + wide.dtype.type(least)).astype(column.dtype)), position[shifted]


def _factorize_objects(values: list[Any]) -> tuple[list[Any], npt.NDArray[np.intp]]:
    try:
        position = {value: i for i, value in enumerate(dict.fromkeys(values))}
    except TypeError:
        return _factorize_objects([repr(value) for value in values])
    return list(position), np.fromiter((position[v] for v in values), dtype=np.intp, count=len(values))


def _float_or_nan(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")
