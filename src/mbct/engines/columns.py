"""Columns of any frame, as numpy: the only place where frames are opened.

A frame is what narwhals reads eagerly (pandas, polars, pyarrow, modin …) or a two-dimensional numpy array,
whose columns are then called ``x0``, ``x1`` and so on.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import NarwhalsError

from mbct.errors import DataError


@dataclass(frozen=True)
class Columns:
    """Named columns of equal length: narwhals series or numpy arrays."""

    by_name: Mapping[str, Any]
    n_rows: int

    @property
    def names(self) -> list[str]:
        """Column names in the frame's order."""
        return list(self.by_name)

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def column(self, name: str) -> Any:
        """The column called ``name``; an error that lists what there is, where it is missing."""
        if name not in self.by_name:
            raise DataError(f"column {name!r} is missing; the data has {listing(self.by_name)}")
        return self.by_name[name]

    def numpy(self, name: str) -> np.ndarray[Any, Any]:
        """The column called ``name`` as a numpy array."""
        column = self.column(name)
        return column if isinstance(column, np.ndarray) else np.asarray(column.to_numpy())

    def require(self, names: Iterable[str]) -> None:
        """Raise unless every name is a column."""
        missing = [name for name in names if name not in self.by_name]
        if missing:
            plural = "columns are" if len(missing) > 1 else "column is"
            raise DataError(f"{plural} missing: {listing(missing)}; the data has {listing(self.by_name)}")

    def take(self, rows: np.ndarray[Any, Any]) -> "Columns":
        """The rows whose numbers are given, in that order."""
        return Columns({name: column[rows] for name, column in self.by_name.items()}, len(rows))

    def without(self, *names: str) -> "Columns":
        """The same columns but for ``names``."""
        return Columns({k: v for k, v in self.by_name.items() if k not in names}, self.n_rows)


def column_name(index_or_name: int | str) -> str:
    """Name of a column that was given by its number in an array.

    >>> column_name(2), column_name("pctr")
    ('x2', 'pctr')
    """
    return index_or_name if isinstance(index_or_name, str) else f"x{index_or_name}"


def read_columns(frame: Any) -> Columns:
    """Open ``frame``; raise one clear error where it is no frame, is empty or repeats a name."""
    if isinstance(frame, np.ndarray):
        return _from_array(frame)
    if isinstance(frame, Mapping):
        arrays = {str(k): np.asarray(v) for k, v in frame.items()}
        lengths = {len(v) for v in arrays.values()}
        if len(lengths) > 1:
            raise DataError(f"the columns have unequal lengths: {sorted(lengths)}")
        return _non_empty(Columns(arrays, max(lengths, default=0)))
    try:
        opened = nw.from_native(frame, pass_through=True, eager_only=True)
        if isinstance(opened, nw.DataFrame):
            return _non_empty(Columns({str(name): opened.get_column(name) for name in opened.columns}, len(opened)))
        array = np.asarray(frame)
    except (ValueError, NarwhalsError) as error:
        raise DataError(f"cannot read a {type(frame).__name__} as a table: {error}") from error
    if array.ndim == 0:
        kind = type(frame).__name__
        raise DataError(f"cannot read a {kind} as a table: pass a frame, an array or a dictionary of columns")
    return _from_array(array)


def _from_array(array: np.ndarray[Any, Any]) -> Columns:
    if array.ndim == 1:
        array = array.reshape(-1, 1)
    if array.ndim != 2:
        raise DataError(f"expected a table (two-dimensional), got shape {array.shape}")
    return _non_empty(Columns({column_name(i): array[:, i] for i in range(array.shape[1])}, len(array)))


def _non_empty(columns: Columns) -> Columns:
    if columns.n_rows == 0 or not columns.by_name:
        raise DataError(f"the data is empty ({columns.n_rows} rows, {len(columns.by_name)} columns)")
    return columns


def listing(names: Iterable[str], most: int = 12) -> str:
    """Names for a message, the first ``most`` of them."""
    listed = [repr(name) for name in names]
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")
