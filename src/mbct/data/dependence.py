"""Do the data say by themselves that rows belong together? A date, or a column whose values share their residuals."""

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from mbct.data.checks import find_dates
from mbct.data.columns import Columns, factorize, is_number
from mbct.stats.block_correlation import block_correlation
from mbct.validation import FloatArray

_MOST_ROWS = 50_000
"""Rows that are looked at: the first in a random order that the seed decides."""
_FEWEST_GROUPS = 50
_LARGEST_GROUPS = 0.02
"""A group that holds a larger share of the rows is a category that comes back, not a person or a shop."""
_EVEN = 0.2
"""Groups of persons or shops have about as many rows; of categories, a few have most of them."""
_SHARED = 0.02
"""Intra-class correlation from which it matters."""
_LEVEL = 0.01


def find_dependence(columns: Columns, y_true: FloatArray, y_prob: FloatArray) -> str | None:
    """The argument to add where rows seem to belong together, with the reason; None where nothing speaks for it."""
    dates = find_dates(columns)
    if dates:
        name = dates[0].column
        return f"rows have a date ({name!r}) and may share what happened that day: pass time={name!r}"
    rows = np.random.default_rng(0).permutation(columns.n_rows)[:_MOST_ROWS]
    some = columns.take(np.sort(rows))
    for name in columns.names:
        column = some.column(name)
        if is_number(column) and not _is_whole(column):
            continue
        values, position = factorize(column)
        if not _look_like_groups(np.bincount(position, minlength=len(values))):
            continue
        found = block_correlation(y_true[np.sort(rows)], y_prob[np.sort(rows)], position)
        if found.value >= _SHARED and found.p_value <= _LEVEL:
            return (
                f"rows with one value of {name!r} share their residuals (intra-class correlation {found.value:.2f}): "
                f"pass groups={name!r} if its values are persons, shops or other units that will not all come back"
            )
    return None


def _is_whole(column: Any) -> bool:
    return bool(column.dtype.is_integer() if isinstance(column, nw.Series) else column.dtype.kind in "iu")


def _look_like_groups(size: np.ndarray) -> bool:
    """Many groups of several rows each, none of them large."""
    n_rows = int(size.sum())
    repeated = n_rows >= 2 * len(size)
    share = size / n_rows
    return bool(
        repeated
        and len(size) >= _FEWEST_GROUPS
        and share.max() <= _LARGEST_GROUPS
        and 1.0 / np.sum(share**2) >= _EVEN * len(size)
    )
