"""Columns that are no features: identifiers, dates, and columns that give the label away.

Pure functions of columns, for whatever fits, ranks, compares or reports. Each result names a column and says why.
"""

import datetime
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from mbct.data.blocks import parse_time
from mbct.data.columns import Columns, as_floats, factorize, is_number
from mbct.stats.scores import auc_of_rows
from mbct.validation import FloatArray

_EARLIER_RUN = frozenset({"calibrated", "calibrated_lower", "calibrated_upper"})
"""Columns that :func:`mbct.data.score` and ``mbct predict`` add."""
_FEWEST_ROWS = 50  # In fewer rows distinct values say nothing
_IDENTIFIER_SHARE = {"text": 0.9, "integer": 0.99}
"""Share of distinct values from which on a column tells rows apart, not segments; integers may be measurements."""
_YEAR_FIRST = re.compile(r"\s*\d{4}[-/.]\d{1,2}[-/.]\d.*")
_YEAR_LAST = re.compile(r"\s*\d{1,2}[-/.]\d{1,2}[-/.]\d{4}([T ]\d{1,2}:\d{2}.*)?\s*")
TIME_NAMES = frozenset({"date", "datetime", "day", "time", "timestamp", "ts"})
"""Names of a column of dates that is likelier than others to be when the row happened."""
_DATES_READ = 1_000  # Rows, then distinct texts, that are tried as dates
_LEAK_AUC = 0.95
_LEAP_AUC, _LEAP = 0.9, 0.25
"""An AUC above 0.9 is a leap where 1 − AUC is less than a quarter of the base's: more than a column usually adds."""
_PURE_SHARE = 0.5
"""Share of the positives in groups of rate 1, and of the negatives in groups of rate 0, that betrays a leak."""
_PURE_ACCURACY = 0.99
_FEWEST_OF_CLASS = 20  # Held-out positives and negatives below which no leak is claimed
MOST_ROWS = 50_000  # Rows that are looked at: the first in a random order that the seed decides
_MOST_GROUPS = 64  # Groups into which a number with more distinct values is cut


@dataclass(frozen=True)
class SuspectColumn:
    """A column that should not be a feature, and why."""

    column: str
    reason: str

    def __str__(self) -> str:
        return f"{self.column} ({self.reason})"


@dataclass(frozen=True)
class DateColumn(SuspectColumn):
    """A column of dates or timestamps; ``readable`` if it can be the time as it is."""

    readable: bool = True


def find_earlier_runs(names: Iterable[str]) -> tuple[SuspectColumn, ...]:
    """Columns that an earlier calibration has added to the data."""
    return tuple(SuspectColumn(name, "added by an earlier calibration") for name in names if name in _EARLIER_RUN)


def find_identifiers(columns: Columns) -> tuple[SuspectColumn, ...]:
    """Columns whose values are nearly all distinct: row numbers, keys, names.

    Numbers with fractions are measurements, whatever their number of distinct values.

    >>> columns = Columns({"row": np.arange(100), "site": np.arange(100) % 5}, 100)
    >>> [str(found) for found in find_identifiers(columns)]
    ['row (100 distinct values in 100 rows: looks like an identifier)']
    """
    reasons = {name: _identifier(columns.column(name), columns.n_rows) for name in columns.names}
    return tuple(SuspectColumn(name, reason) for name, reason in reasons.items() if reason is not None)


def identifier_reason(n_distinct: int, n_rows: int, *, integer: bool) -> str | None:
    """Why a column of text or integers with so many distinct values is an identifier; None where it is none.

    >>> identifier_reason(980, 1000, integer=False)
    '980 distinct values in 1,000 rows: looks like an identifier'
    """
    share = _IDENTIFIER_SHARE["integer" if integer else "text"]
    if n_rows < _FEWEST_ROWS or n_distinct < share * n_rows:
        return None
    return f"{n_distinct:,} distinct values in {n_rows:,} rows: looks like an identifier"


def find_dates(columns: Columns) -> tuple[DateColumn, ...]:
    """Columns of dates or timestamps, typed or as text: a date seen in training never comes back.

    >>> columns = Columns({"day": np.array(["2024-01-31", "2024-02-01"]), "version": np.array(["1.2.3", "1.2.4"])}, 2)
    >>> [str(found) for found in find_dates(columns)]
    ['day (dates, for example 2024-01-31: name a period instead, such as the hour or the weekday)']
    """
    return tuple(found for name in columns.names if (found := _dates_of(name, columns.column(name))) is not None)


def find_leaks(
    columns: Columns, y_true: FloatArray, *, y_prob: FloatArray | None = None, weight: FloatArray | None = None
) -> tuple[SuspectColumn, ...]:
    """Columns that alone separate the labels, by held-out rows: recorded after the outcome, or a copy of it.

    Label rates by value, or by interval of a number, are learnt on one half of the rows and evaluated on the other: an
    AUC above 0.95, one that :func:`leaps` above that of ``y_prob`` (of chance, where it is not given), or rates of 0
    and 1 that hold for most positives and most negatives, betray a leak. It must also rank better than ``y_prob``.

    >>> label = (np.arange(400) % 4 == 0).astype(float)
    >>> columns = Columns({"amount": 12.5 * label, "site": np.arange(400) % 7}, 400)
    >>> [str(found) for found in find_leaks(columns, label)]
    ['amount (it alone ranks held-out labels with AUC 1.000: recorded after the outcome?)']
    """
    order = np.random.default_rng(0).permutation(columns.n_rows)[:MOST_ROWS]
    learnt, held_out = order[::2], order[1::2]
    weights = np.ones(columns.n_rows) if weight is None else weight
    positives = float(y_true[held_out].sum())
    if min(positives, len(held_out) - positives) < _FEWEST_OF_CLASS:
        return ()
    base_auc = 0.5 if y_prob is None else auc_of_rows(y_prob[held_out], y_true[held_out], weights[held_out])
    found = []
    for name in columns.names:
        group = _groups(columns.column(name))
        rate = _rates(group[learnt], y_true[learnt], weights[learnt], int(group.max()) + 1)[group[held_out]]
        auc = auc_of_rows(rate, y_true[held_out], weights[held_out])
        if auc > max(_LEAK_AUC, base_auc) or leaps(auc, base_auc):
            reason = f"it alone ranks held-out labels with AUC {auc:.3f}: recorded after the outcome?"
            found.append(SuspectColumn(name, reason))
        elif auc > base_auc and _separates(rate, y_true[held_out], weights[held_out]):
            reason = "its values have label rates of 0 or 1 on most held-out rows: recorded after the outcome?"
            found.append(SuspectColumn(name, reason))
    return tuple(found)


def leaps(auc: float, base_auc: float) -> bool:
    """Whether a column or a calibration ranks so much better than the base predictor that a leak is likely.

    >>> leaps(0.94, 0.66), leaps(0.96, 0.94)
    (True, False)
    """
    return auc > _LEAP_AUC and 1.0 - auc < _LEAP * (1.0 - base_auc)


def _identifier(column: Any, n_rows: int) -> str | None:
    if n_rows < _FEWEST_ROWS or _is_boolean(column):
        return None
    if not is_number(column):
        return identifier_reason(len(factorize(column)[0]), n_rows, integer=False)
    values = as_floats(column)
    values = values[np.isfinite(values)]
    whole = np.all(values == np.floor(values))
    return identifier_reason(len(np.unique(values)), n_rows, integer=True) if whole else None


def _is_boolean(column: Any) -> bool:
    return bool(column.dtype == nw.Boolean if isinstance(column, nw.Series) else column.dtype.kind == "b")


def _dates_of(name: str, column: Any) -> DateColumn | None:
    """A column as one of dates; None where it holds anything else."""
    if is_number(column) or _is_boolean(column):
        return None
    for some in (column[:_DATES_READ], column):  # Most texts are none, which the first rows show.
        present = [value for value in factorize(some)[0] if value is not None and value == value][:_DATES_READ]
        if not all(map(_is_date, present)):
            return None
    if not present:
        return None
    readable = all(parse_time(value) is not None for value in present if isinstance(value, str))
    example = min(map(str, present))
    return DateColumn(
        name, f"dates, for example {example}: name a period instead, such as the hour or the weekday", readable
    )


def _is_date(value: Any) -> bool:
    """Whether a value is a date: readable as time, or with its year at the end, which leaves open what comes first."""
    if isinstance(value, str):
        return bool(_YEAR_LAST.fullmatch(value) or (_YEAR_FIRST.fullmatch(value) and parse_time(value) is not None))
    return isinstance(value, datetime.date | np.datetime64)


def _groups(column: Any) -> npt.NDArray[np.intp]:
    """Number of each row's value, or of the interval of a number with many."""
    if not is_number(column):
        return factorize(column)[1]
    values = as_floats(column)
    known = values[~np.isnan(values)]
    edges = np.unique(known)
    if len(edges) > _MOST_GROUPS:
        edges = np.unique(np.quantile(known, np.linspace(0.0, 1.0, _MOST_GROUPS + 1), method="lower"))
    group = np.searchsorted(edges, values, side="left")
    group[np.isnan(values)] = len(edges) + 1
    return group


def _rates(group: npt.NDArray[np.intp], y_true: FloatArray, weight: FloatArray, n_groups: int) -> FloatArray:
    """Label rate of each group; the overall rate where a group has no row."""
    count = np.bincount(group, weight, n_groups)
    label = np.bincount(group, weight * y_true, n_groups)
    overall = float(label.sum() / count.sum())
    return np.where(count > 0, label / np.where(count > 0, count, 1.0), overall)


def _separates(rate: FloatArray, y_true: FloatArray, weight: FloatArray) -> bool:
    positive, negative = weight * y_true, weight * (1.0 - y_true)
    all_one, all_zero = rate == 1.0, rate == 0.0
    right = float(positive[all_one].sum() + negative[all_zero].sum())
    wrong = float(negative[all_one].sum() + positive[all_zero].sum())
    most = positive[all_one].sum() > _PURE_SHARE * positive.sum()
    most &= negative[all_zero].sum() > _PURE_SHARE * negative.sum()
    return bool(most and right > _PURE_ACCURACY * (right + wrong))
