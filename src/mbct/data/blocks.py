"""From times and groups to numbered blocks: which rows belong together, in the order of time where there is one."""

import datetime
import re
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
from narwhals.stable.v2.dtypes import DType

from mbct.data.columns import factorize
from mbct.errors import DataError, ParameterError
from mbct.model.encoding import category_key
from mbct.training.folds import BlockNumbers, BlockSize

_MICROSECONDS = {"hour": 3_600_000_000, "day": 86_400_000_000, "week": 604_800_000_000}
_MONDAY = 4 * _MICROSECONDS["day"]  # 1 January 1970 was a Thursday, weeks begin on Monday: that is four days after it
_MOST_BLOCKS = 10_000
_STRETCHES = 1_000
"""More than 10,000 distinct integers are no numbers of days: they are cut into so many equal stretches."""
_MOST_IN_ONE = 0.9
"""Share of the distinct integers above which one stretch holds too many: an outlier has drawn the others out."""
_REMEDIES = {
    "block of time": "take shorter blocks (block='hour' for timestamps), or leave the time out",
    "group": "take another column, or leave the groups out",
}


def number_blocks(time: Any, groups: Any, block: BlockSize = "day") -> BlockNumbers:
    """Block of each row, numbered from 0 in the order of time, or of the groups' names.

    ``time`` and ``groups`` are columns or arrays. With both there are two columns: the block of time and the group.
    """
    numbers = [] if time is None else [_numbered(blocks_of_time(time, block), "block of time")]
    numbers += [] if groups is None else [_numbered(_group_numbers(groups), "group")]
    if not numbers:
        raise ParameterError("pass time or groups")
    return numbers[0] if len(numbers) == 1 else np.column_stack(numbers)


def _group_numbers(groups: Any) -> npt.NDArray[np.int64]:
    """Number of each row's group, in the order of the groups' names."""
    values, position = factorize(groups if isinstance(groups, nw.Series) else np.asarray(groups))
    keys = [category_key(value) for value in values]
    if None in keys:
        missing = int(np.sum(np.array([key is None for key in keys])[position]))
        raise DataError(f"the group is missing in {missing:,} rows: give every row a group, or drop these rows")
    return np.unique(np.array(keys, dtype=object), return_inverse=True)[1][position]


def time_key(name: str, dtype: DType, block: BlockSize) -> nw.Expr:
    """A column of time in an engine, cut off to days or hours, so that rows group by it; others are as they are."""
    if not isinstance(dtype, nw.Datetime) or dtype.time_zone is not None or not isinstance(block, str):
        return nw.col(name)
    return nw.col(name).dt.truncate("1h" if block == "hour" else "1d")


def _numbered(blocks: npt.NDArray[Any], kind: str) -> BlockNumbers:
    values, number = np.unique(blocks, return_inverse=True)
    if len(values) < 2:
        raise DataError(
            f"all {len(blocks):,} rows belong to one {kind}: at least two are needed, one to fit on and one to "
            f"evaluate on; {_REMEDIES[kind]}"
        )
    return np.asarray(number, dtype=np.int32)


def blocks_of_time(column: Any, block: BlockSize) -> npt.NDArray[np.int64]:
    """Number of the day, week, hour or stretch of each row; integers are numbers of blocks already."""
    values = as_times(column)
    if values.dtype.kind == "M":
        ticks = values.astype(np.int64)
        if isinstance(block, str):
            return np.asarray((ticks - (_MONDAY if block == "week" else 0)) // _MICROSECONDS[block])
        return _stretches(ticks, block)
    if not isinstance(block, str):
        return _stretches(values, block)
    if block != "day":
        raise ParameterError(
            f"block={block!r} is for dates and timestamps; these times are whole numbers, each a block already: leave "
            "block out, or pass a number of stretches"
        )
    distinct, position = np.unique(values, return_inverse=True)
    if len(distinct) <= _MOST_BLOCKS:
        return values
    found = _stretches(distinct, _STRETCHES)
    if np.bincount(found).max() > _MOST_IN_ONE * len(distinct):
        found = _stretches(np.arange(len(distinct)), _STRETCHES)
    return found[position]


def _stretches(ticks: npt.NDArray[np.int64], n_stretches: int) -> npt.NDArray[np.int64]:
    """Equal stretches between the first and the last; spans whose product would overflow lose their last bits."""
    first, last = int(ticks.min()), int(ticks.max())
    shift = max(0, ((last - first) * n_stretches).bit_length() - 63)
    # The difference of two integers of 64 bits fits into 64 bits without a sign.
    since = ((ticks.astype(np.uint64) - np.uint64(first % 2**64)) >> np.uint64(shift)).astype(np.int64)
    return np.minimum(since * n_stretches // max((last - first) >> shift, 1), n_stretches - 1)


def as_times(column: Any) -> npt.NDArray[Any]:
    """Integers as int64, dates and timestamps as datetime64 in microseconds of UTC."""
    if isinstance(column, nw.Series):
        column = _series_ticks(column)
    array = np.asarray(column)
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    if array.dtype.kind == "f" and np.all(np.isnan(array) | (array == np.rint(array))):
        _refuse_missing(np.isnan(array))
        _refuse_missing(~(np.abs(array) < 2.0**63), "no finite number")
        return array.astype(np.int64)
    if array.dtype.kind == "M":
        _refuse_missing(np.isnat(array))
        return array.astype("datetime64[us]")
    if array.dtype.kind not in "OUST":
        raise DataError(f"the time must be dates, timestamps or whole numbers, not {array.dtype}: convert it first")
    values, position = factorize(array)
    times = [_datetime(value) for value in values]
    _refuse_missing(np.isnat(np.array(times, dtype="datetime64[us]"))[position])
    return np.array(times, dtype="datetime64[us]")[position]


def _series_ticks(column: nw.Series[Any]) -> Any:
    dtype = column.dtype
    if isinstance(dtype, nw.Datetime):
        zoned = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if dtype.time_zone else column
        return zoned.to_numpy()
    if dtype.is_integer():
        _refuse_missing(column.is_null().to_numpy())
    return column.to_numpy() if dtype.is_numeric() else np.array(column.to_list(), dtype=object)


def _datetime(value: Any) -> np.datetime64:
    """A date or timestamp of any spelling; what is missing is NaT."""
    if value is None or value != value or value == "":
        return np.datetime64("NaT", "us")
    read: Any = parse_time(value) if isinstance(value, str) else value
    if not isinstance(read, datetime.date | np.datetime64):
        raise DataError(
            f"the time {value!r} is no date: pass dates, timestamps, text such as 2024-01-31 or whole numbers"
        )
    if isinstance(read, datetime.datetime) and read.tzinfo is not None:
        read = read.astimezone(datetime.UTC).replace(tzinfo=None)
    return np.datetime64(read, "us")


_YEAR_FIRST = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?:[T ]\s*(\d{1,2})(:.*)?)?")


def parse_time(text: str) -> datetime.datetime | None:
    """A date or timestamp written in the order of ISO 8601, such as 2024-01-31 or 2024/1/31 9:30; None for others.

    What begins with a day or a month, such as 01/02/2024, may be either.

    >>> str(parse_time("2024/1/31 9:30")), parse_time("31.01.2024")
    ('2024-01-31 09:30:00', None)
    """
    text = text.strip()
    found = _YEAR_FIRST.fullmatch(text)
    if found is not None:
        year, _, month, day, hour, rest = found.groups()
        text = f"{year}-{month:0>2}-{day:0>2}" + ("" if hour is None else f"T{hour:0>2}{rest or ''}")
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return None


def _refuse_missing(missing: npt.NDArray[np.bool_], what: str = "missing") -> None:
    if n_missing := int(np.sum(missing)):
        raise DataError(f"the time is {what} in {n_missing:,} rows: give every row a time, or drop these rows")
