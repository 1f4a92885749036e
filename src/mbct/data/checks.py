"""What to know of columns before a fit: identifiers, dates and leaks are no features; rows may belong together.

Pure functions of columns, for whatever fits, ranks, compares or reports. Each result names a column and says why.
"""

import datetime
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.data.blocks import parse_time
from mbct.data.columns import Columns, as_floats, factorize, is_boolean, is_number
from mbct.stats.probabilities import BlockCorrelation, auc_of_rows, block_correlation
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
_PURE_SHARE = 0.5  # Share of the positives in groups of rate 1, and of negatives in groups of rate 0: a leak
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
    reasons = ((name, _identifier(columns.column(name), columns.n_rows)) for name in columns.names)
    return tuple(SuspectColumn(name, reason) for name, reason in reasons if reason is not None)


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
            how = f"it alone ranks held-out labels with AUC {auc:.3f}"
        elif auc > base_auc and _separates(rate, y_true[held_out], weights[held_out]):
            how = "its values have label rates of 0 or 1 on most held-out rows"
        else:
            continue
        found.append(SuspectColumn(name, f"{how}: recorded after the outcome?"))
    return tuple(found)


def leaps(auc: float, base_auc: float) -> bool:
    """Whether a column or a calibration ranks so much better than the base predictor that a leak is likely.

    >>> leaps(0.94, 0.66), leaps(0.96, 0.94)
    (True, False)
    """
    return auc > _LEAP_AUC and 1.0 - auc < _LEAP * (1.0 - base_auc)


def _identifier(column: Any, n_rows: int) -> str | None:
    if n_rows < _FEWEST_ROWS or is_boolean(column):
        return None
    if not is_number(column):
        return identifier_reason(len(factorize(column)[0]), n_rows, integer=False)
    distinct = np.unique(as_floats(column))
    distinct = distinct[np.isfinite(distinct)]
    whole = np.all(distinct == np.floor(distinct))
    return identifier_reason(len(distinct), n_rows, integer=True) if whole else None


def _dates_of(name: str, column: Any) -> DateColumn | None:
    """A column as one of dates; None where it holds anything else."""
    if is_number(column) or is_boolean(column):
        return None
    for some in (column[:_DATES_READ], column):  # Most texts are none, which the first rows show.
        present = [value for value in factorize(some)[0] if value is not None and value == value][:_DATES_READ]
        if not all(map(_is_date, present)):
            return None
    if not present:
        return None
    readable = all(parse_time(value) is not None for value in present if isinstance(value, str))
    example = f"for example {min(map(str, present))}"
    return DateColumn(name, f"dates, {example}: name a period instead, such as the hour or the weekday", readable)


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


_NAMES = """
    patient person user customer client member subject household family student pupil player passenger driver
    shop store clinic hospital doctor school game match session day date week
"""
_UNITS = frozenset(_NAMES.split())
"""Words in the name of a column that say that its values are units or days, however few or uneven they are."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_FEWEST_UNITS, _FEWEST_NUMBERS, _FEWEST_TEXTS = 20, 30, 50
"""Groups below which values are a category, whose bias is to be corrected: by name, of whole numbers, of others."""
_LARGEST_GROUP = 0.02
"""Share of the rows from which on a value is a category that comes back; twice an equal share, if that is more."""
_EVEN = 0.2  # Groups of persons or shops have about as many rows; of categories, a few have most of them
_STRETCH_VALUES, _STRETCH_ROWS = 3, 100
"""Neighbouring numbers within which a bias that follows the number is taken out: three, or more with so many rows."""
_SHARED_BY_UNITS, _SHARED, _DESIGN_EFFECT = 0.005, 0.02, 1.2
"""Intra-class correlation ρ, less where the name says units, and design effect 1 + (n − 1)ρ of n rows a group, from
which it matters: rows that were repeated, too, share what they have."""
_LEVEL = 0.005  # Chance of a false alarm, all columns together
_TESTED_ROWS, _ROWS_OF_GROUP = 10_000, 20
"""Rows that are permuted: so many, or so many for each group; more would cost time and add no power that is needed."""
_MOST_PERMUTED = 5_000_000
"""Rows of all permutations of a column: of many rows, chance alone does not reach what matters, and fewer will do."""


@dataclass(frozen=True)
class Dependence:
    """A column by which rows seem to belong together: why, and whether it may be passed as time, as groups, or both."""

    column: str
    why: str
    as_time: str | None = None
    as_groups: str | None = None
    first: str = ""

    def __str__(self) -> str:
        return self._advice(f"{self.first}pass", f"time={self.column!r}", f"groups={self.column!r}")

    def on_command_line(self) -> str:
        """The advice in options of the command line."""
        return self._advice(f"{self.first}add", f"--time {self.column}", f"--group {self.column}")

    def _advice(self, verb: str, time: str, groups: str) -> str:
        choices = ((groups, self.as_groups), (time, self.as_time))
        return f"{self.why}: {verb} {', '.join(f'{what}{when}' for what, when in choices if when is not None)}"


def find_dependence(
    columns: Columns, y_true: FloatArray, y_prob: FloatArray, block: npt.NDArray[np.integer] | None = None
) -> Dependence | None:
    """A column by which rows seem to belong together; None where nothing speaks for one.

    Where the ``block`` of time of each row is known, groups within the blocks are looked for.
    """
    dates = find_dates(columns) if block is None else ()
    if dates:
        date = min(dates, key=lambda each: (not each.readable, each.column.lower() not in TIME_NAMES))
        why = f"rows have a date ({date.column!r}) and may share what happened that day"
        return Dependence(date.column, why, as_time="", first="" if date.readable else "write it as 2024-01-31 and ")
    rows = np.random.default_rng(0).permutation(columns.n_rows)[:MOST_ROWS]
    some = columns.take(rows)
    y_true, y_prob, block = y_true[rows], y_prob[rows], None if block is None else block[rows]
    found = {name: groups for name in columns.names if (groups := _groups_of(name, some.column(name))) is not None}
    shared = {name: groups.correlation(y_true, y_prob, block, 0).value for name, groups in found.items()}
    likely = [name for name, groups in found.items() if groups.matters(shared[name])]
    for name in sorted(likely, key=lambda name: -shared[name]):
        n_permutations = min(round(len(found) / _LEVEL), _MOST_PERMUTED // len(found[name].rows)) - 1
        tested = found[name].correlation(y_true, y_prob, block, n_permutations)
        if tested.p_value <= 1.0 / (n_permutations + 1):
            why = f"rows with one value of {name!r} share their residuals (intra-class correlation {tested.value:.2f})"
            units = " if its values are persons, shops or other units that will not all come back"
            days = " if they are numbers of days or other stretches of time"
            return Dependence(name, why, days if found[name].stretch is not None and block is None else None, units)
    return None


@dataclass(frozen=True)
class _Groups:
    """Some of the rows, in random order, with the number of the group of each, and of its stretch of numbers.

    ``mean_size``: rows of the group of a row, on average of all rows. ``least``: correlation from which it matters.
    """

    rows: npt.NDArray[np.intp]
    number: npt.NDArray[np.intp]
    stretch: npt.NDArray[np.intp] | None
    mean_size: float
    least: float

    def matters(self, shared: float) -> bool:
        """Whether rows that share so much are far from independent."""
        return shared >= self.least and 1.0 + (self.mean_size - 1.0) * shared >= _DESIGN_EFFECT

    def correlation(
        self, y_true: FloatArray, y_prob: FloatArray, block: npt.NDArray[np.integer] | None, n_permutations: int
    ) -> BlockCorrelation:
        """Intra-class correlation beyond that of blocks and of stretches."""
        rows = self.rows
        within = [each for each in (None if block is None else block[rows], self.stretch) if each is not None]
        return block_correlation(y_true[rows], y_prob[rows], self.number, within=within, n_permutations=n_permutations)


def _groups_of(name: str, column: Any) -> _Groups | None:
    """The groups that the values of a column make; None where it is a measurement or a category."""
    whole = is_number(column)
    if whole:
        values = as_floats(column)
        known = np.isfinite(values)
        if not np.array_equal(values[known], np.floor(values[known])):
            return None
        number = np.unique(values[known], return_inverse=True)[1]
    else:
        distinct, position = factorize(column)
        missing = np.array([value is None or value != value for value in distinct], dtype=np.bool_)
        known = ~missing[position]
        number = position[known]
    rows = np.flatnonzero(known)
    named = not _UNITS.isdisjoint(word.lower() for word in _WORD.findall(name))
    fewest = _FEWEST_UNITS if named else _FEWEST_NUMBERS if whole else _FEWEST_TEXTS
    size = np.bincount(number)
    largest = max(_LARGEST_GROUP * len(rows), 2.0 * len(rows) / max(len(size), 1))
    if named:  # What a few of them share with none of the others says nothing of the many.
        kept = size[number] <= largest
        rows, number, size = rows[kept], number[kept], np.where(size <= largest, size, 0)
    size = size[size > 0]
    even = named or (size.max(initial=0) <= largest and size.sum() ** 2 >= _EVEN * len(size) * np.sum(size**2.0))
    if len(size) < fewest or size.sum() < 2 * len(size) or not even:
        return None
    stretch = _stretches(number) if whole else None
    most = max(_TESTED_ROWS, _ROWS_OF_GROUP * len(size))
    mean_size = float(np.sum(size**2.0) / size.sum())
    least = _SHARED_BY_UNITS if named else _SHARED
    return _Groups(rows[:most], number[:most], None if stretch is None else stretch[:most], mean_size, least)


def _stretches(number: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Number of the stretch of neighbouring groups of each row: a bias that rises with a number is no unit's own."""
    size = np.bincount(number)
    before = np.cumsum(size) - size
    rows = max(_STRETCH_ROWS, _STRETCH_VALUES * size.sum() / np.count_nonzero(size))
    return np.asarray((before // rows)[number], dtype=np.intp)
