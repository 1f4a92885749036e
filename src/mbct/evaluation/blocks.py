"""Rows that belong together when predictions are evaluated: those of one day, of one person, of one shop."""

from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.data.columns import factorize, read_columns
from mbct.errors import DataError
from mbct.validation import as_column, same_length


def block_numbers(time: Any, groups: Any) -> npt.NDArray[np.int64] | None:
    """Number of the block of each row: its day, its group or, where both are given, its group within its day.

    ``time`` holds dates, timestamps or whole numbers, each a block; None where neither is given.

    >>> block_numbers(np.array(["2024-01-02T10", "2024-01-01", "2024-01-02T11"], dtype="datetime64[h]"), None).tolist()
    [1, 0, 1]
    >>> block_numbers(None, ["b", "a", "b"]).tolist()
    [1, 0, 1]
    """
    number = None
    if time is not None:
        number = np.unique(_days(as_column(time, "time")), return_inverse=True)[1].astype(np.int64)
    if groups is None:
        return number
    column = as_column(groups, "groups")
    values, position = factorize(column)
    rank = np.empty(len(values), dtype=np.int64)
    rank[sorted(range(len(values)), key=lambda i: str(values[i]))] = np.arange(len(values))
    if number is None:
        return rank[position]
    same_length(len(number), groups=column)
    return np.asarray(np.unique(number * len(values) + rank[position], return_inverse=True)[1], dtype=np.int64)


def split_off_blocks(X: Any, time: Any, groups: Any) -> tuple[Any, npt.NDArray[np.int64] | None]:
    """``X`` without the columns that ``time`` and ``groups`` name, and the block of each row."""
    names = [name for name in (time, groups) if isinstance(name, str)]
    if not names:
        return X, block_numbers(time, groups)
    columns = read_columns(X)
    given = (columns.numpy(name) if isinstance(name, str) else name for name in (time, groups))
    return dict(columns.without(*names).by_name), block_numbers(*given)


def _days(time: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The day of each timestamp; numbers are blocks themselves."""
    if time.dtype.kind in "iu":
        return time
    if time.dtype.kind == "f":
        missing = np.isnan(time)
        days: npt.NDArray[Any] = np.floor(time)
    else:
        try:
            days = time.astype("datetime64[D]")
        except (TypeError, ValueError) as error:
            raise DataError(
                f"time holds {time[0]!r}, which is no date: pass dates, timestamps or whole numbers of days"
            ) from error
        missing = np.isnat(days)
    if missing.any():
        raise DataError(f"time is missing in row {int(missing.argmax())}: fill it, or drop the rows without a time")
    return days
