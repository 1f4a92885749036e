"""Whether rows belong together: by a date, or by a column whose values share their residuals."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.data.checks import MOST_ROWS, TIME_NAMES, find_dates
from mbct.data.columns import Columns, as_floats, factorize, is_number
from mbct.stats.testing import block_correlation
from mbct.validation import FloatArray

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
    shared = {name: groups.correlation(y_true, y_prob, block, 0)[0] for name, groups in found.items()}
    likely = [name for name, groups in found.items() if groups.matters(shared[name])]
    for name in sorted(likely, key=lambda name: -shared[name]):
        n_permutations = min(round(len(found) / _LEVEL), _MOST_PERMUTED // len(found[name].rows)) - 1
        value, p_value = found[name].correlation(y_true, y_prob, block, n_permutations)
        if p_value <= 1.0 / (n_permutations + 1):
            why = f"rows with one value of {name!r} share their residuals (intra-class correlation {value:.2f})"
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
    ) -> tuple[float, float]:
        """Intra-class correlation beyond that of blocks and of stretches, and its p-value."""
        within = [each for each in (None if block is None else block[self.rows], self.stretch) if each is not None]
        found = block_correlation(
            y_true[self.rows], y_prob[self.rows], self.number, within=within, n_permutations=n_permutations
        )
        return found.value, found.p_value


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
