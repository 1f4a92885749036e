"""What each column is for: the label, the score, the weight, features, and what is left out and why."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from mbct.data.engines.duckdb_files import quoted
from mbct.errors import DataError

if TYPE_CHECKING:
    from mbct.cli.sources import Data
    from mbct.training.folds import BlockSize

_LABEL_NAMES = """
    click clicked is_click label target y y_true outcome event converted conversion is_conversion claim default
    purchase churn churned died readmitted fraud
"""
_SCORE_NAMES = """
    p pctr pcvr score prob proba probability prediction pred predicted y_prob y_pred y_score y_hat p_hat phat risk
"""
LABEL_NAMES = frozenset(_LABEL_NAMES.split())
SCORE_NAMES = frozenset(_SCORE_NAMES.split())
_SCORE_PATTERN = re.compile(r"^(p|pred|prob|score)_|_(p|pred|prob|proba|probability|score|prediction)$")
_MANY_ROWS = 1_000_000
"""In more rows than this distinct values are first counted by a sketch, which is some per cent off."""
_NEARLY_ALL = 0.85  # Share of distinct values by the sketch from which on they are counted exactly
_INTEGERS = frozenset(f"{sign}{size}int" for sign in ("", "u") for size in ("tiny", "small", "", "big", "huge"))
_INTEGERS |= {"integer", "uinteger"}
_FRACTIONS = frozenset({"float", "double", "decimal"})
_DATES = frozenset(
    {"date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"}
    | {"timestamp with time zone", "timestamp with nanoseconds"}
)
_NO_SEGMENTS = frozenset(
    {"list", "array", "struct", "map", "union", "null", "sqlnull", "blob", "bit", "interval", "time"}
    | {"time with time zone"}
)
"""Types whose values a model cannot distinguish."""
NO_TIME = "none"
_FEWEST_DAYS = 10  # A column of dates with fewer days is not taken for the time unless it is named
_IN_ORDER = 0.9  # Correlation with the number of the row from which on dates follow the rows
_FIRST_ROWS = 1_000  # Rows in which texts are tried as dates


@dataclass(frozen=True)
class RowOptions:
    """Which rows, what their columns are for, and which rows belong together."""

    data: str | None
    sql: str | None = None
    label: str | None = None
    positive: str | None = None
    score: str | None = None
    weight: str | None = None
    time: str | None = NO_TIME
    """A column's name, "none" for none, or None for a column of dates if there is one."""
    group: str | None = None
    block: "BlockSize" = "day"
    features: Sequence[str] | None = None
    """Columns that may explain a bias; empty for every one that is fit to, None where none are wanted."""
    exclude: Sequence[str] = ()
    memory_limit: str | None = None


@dataclass(frozen=True)
class Roles:
    """The columns to use; ``excluded`` says why each of the others is left out, ``guessed`` what nobody named.

    ``features`` is None where none are wanted.
    """

    label: str
    score: str
    features: tuple[str, ...] | None
    weight: str | None = None
    time: str | None = None
    group: str | None = None
    excluded: tuple[tuple[str, str], ...] = ()
    guessed: tuple[str, ...] = ()
    scores: tuple[str, ...] = ()
    """A column for each class, of which ``score`` is the first; empty for two classes."""

    def lines(self) -> list[str]:
        """The choice in words, one line a role."""
        guess = dict.fromkeys(self.guessed, " (guessed)")
        if "time" in guess:
            guess["time"] = " (guessed; --time none to ignore it)"
        named = {**self._named(), "score": ", ".join(self.scores) or self.score}
        lines = [f"{role}: {name}{guess.get(role, '')}" for role, name in named.items() if name is not None]
        if self.features is not None:
            lines.append(f"features: {', '.join(self.features) or 'none'}")
        return lines + [f"left out: {name} ({reason})" for name, reason in self.excluded]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        excluded = [{"column": name, "reason": reason} for name, reason in self.excluded]
        features = list(self.features or ())
        return {**self._named(), "features": features, "excluded": excluded, "guessed": list(self.guessed)}

    @property
    def columns(self) -> list[str]:
        """The features and the columns of all other roles, each once."""
        others = (self.score, *self.scores, self.label, self.weight, self.time, self.group)
        return list(dict.fromkeys(name for name in (*(self.features or ()), *others) if name is not None))

    def _named(self) -> dict[str, Any]:
        score = list(self.scores) or self.score
        return {"label": self.label, "score": score, "weight": self.weight, "time": self.time, "group": self.group}


def assign(data: "Data", rows: RowOptions, scores: Sequence[str] = ()) -> Roles:
    """Roles of the columns of ``data``: label, score and time are guessed where they are not named.

    ``scores`` are the columns that ``rows.score`` names, several for many classes.
    """
    weight, group, features, exclude = rows.weight, rows.group, rows.features, rows.exclude
    asked_for_none, time = rows.time == NO_TIME, None if rows.time == NO_TIME else rows.time
    named = [name for name in (rows.label, *scores, weight, time, group) if name is not None]
    n_rows = data.count()
    data.require([*named, *(features or ()), *exclude])
    guessed = [role for role, name in (("label", rows.label), ("score", scores)) if not name]
    label = rows.label or _guess_label(data, set(named))
    score = scores[0] if scores else _guess_score(data, {*named, label})
    classes = tuple(scores) if len(scores) > 1 else ()
    taken = [name for name in (label, score, *scores[1:], weight) if name is not None]
    if len(set(taken)) < len(taken):
        raise DataError(f"label, score and weight must be different columns, got {', '.join(taken)}")
    others = [name for name in data.names if name not in (*taken, time, group)]
    every_column = features is not None and not features
    likely = [name for name in others if name not in exclude] if time is None or every_column else []
    dates = _dates(data, likely)
    if time is None and not asked_for_none:
        time, unused = _guess_time(data, list(dates))
        guessed += ["time"] if time is not None else []
        dates |= {name: f"{dates[name]}; {reason}" for name, reason in unused.items()}
    roles = Roles(label, score, None, weight, time, group, (), tuple(guessed), classes)
    if features is None:
        return roles
    if features:
        kept = tuple(name for name in features if name not in (*taken, *exclude))
        return replace(roles, features=kept)
    reasons = _useless(data, n_rows, [name for name in others if name not in exclude and name != time], dates)
    reasons |= dict.fromkeys(exclude, "as asked")
    left_out = tuple((name, reasons[name]) for name in others if name in reasons and name != time)
    return replace(roles, features=tuple(n for n in others if n not in reasons and n != time), excluded=left_out)


def score_columns(data: "Data", given: str) -> list[str]:
    """Columns that ``--score`` names: one, several between commas, or all that a pattern with ``*`` matches."""
    found = []
    for part in (part.strip() for part in given.split(",")):
        matched = [name for name in data.names if fnmatchcase(name, part)] if "*" in part else [part]
        if not matched:
            raise DataError(f"--score {part}: no column matches; the data has {', '.join(data.names)}")
        found += matched
    return list(dict.fromkeys(found))


def _guess_time(data: "Data", names: Sequence[str]) -> tuple[str | None, dict[str, str]]:
    """Of columns of dates that which is likeliest to be when rows happened, and why each of the others is not it."""
    read = {name: _read_days(data, name) for name in names}
    complete = [name for name in names if read[name].missing == read[name].unread == 0]
    likely = [name for name in complete if read[name].days >= _FEWEST_DAYS]
    time = likely[0] if len(likely) == 1 else _likeliest_time(data, likely) if likely else None
    reasons = {name: read[name].why_not() for name in names if name not in likely}
    return time, reasons | {
        name: f"{time} is the time, --time {name} takes this one instead" for name in likely if name != time
    }


@dataclass(frozen=True)
class _Days:
    """Of a column of dates: how many days it has, and in how many rows it is missing or no date."""

    days: int
    missing: int
    unread: int

    def why_not(self) -> str:
        """Why it is not taken for the time, unless it is named."""
        if self.unread:
            return "written as 2024-01-31 in every row it could be the --time, by which days are held out whole"
        if self.missing:
            rows = f"{self.missing:,} row{'s' if self.missing > 1 else ''}"
            return f"missing in {rows}: known in every row it could be the --time, by which days are held out whole"
        return f"a column of fewer than {_FEWEST_DAYS} days is taken for the --time only if it is named"


def _read_days(data: "Data", name: str) -> _Days:
    column, day = quoted(name), data.day(name)
    counted = f"count(DISTINCT {day}), count(*) - count({column}), count({column}) - count({day})"
    return _Days(*data.relation.aggregate(counted).fetchall()[0])


def _likeliest_time(data: "Data", names: Sequence[str]) -> str:
    """By name; else that which rises or falls from row to row; else that whose days have the fewest gaps."""
    from mbct.data.checks import TIME_NAMES

    if named := [name for name in names if name.lower() in TIME_NAMES]:
        return named[0]

    def in_order_and_dense(name: str) -> tuple[bool, float]:
        numbered = data.relation.project(f"{data.day(name)} AS day, row_number() OVER () AS row")
        wanted = "corr(epoch(day), row), count(DISTINCT day) / (max(day) - min(day) + 1)"
        order, dense = numbered.aggregate(wanted).fetchall()[0]
        return abs(order or 0.0) >= _IN_ORDER, dense

    return max(names, key=in_order_and_dense)


def _guess_label(data: "Data", taken: set[str]) -> str:
    likely = _named_like(data, LABEL_NAMES.__contains__, taken)
    types = data.types
    numbers = [name for name in likely if types[name].id in _INTEGERS | _FRACTIONS]
    binary = data.each("bool_and({} IN (0, 1))", numbers)
    found = [name for name in likely if types[name].id == "boolean" or binary.get(name)]
    # Texts of two values are a label too: which of them is the positive one is asked for afterwards.
    texts = [name for name in likely if types[name].id == "varchar"]
    found += [name for name, n_values in data.each("count(DISTINCT {})", texts).items() if n_values == 2]
    return _only(data, found, "label", "a column of 0 and 1, or of two values with --positive VALUE")


def as_binary(data: "Data", label: str, positive: str | None) -> "Data":
    """The rows with a label of 0 and 1: 1 where it is ``positive``, which a label of two texts must name."""
    kind = data.types[label].id
    if positive is None and kind != "varchar":
        outside = "bool_or({} NOT BETWEEN 0 AND 1 AND NOT isnan({}::DOUBLE))"
        if kind not in _INTEGERS | _FRACTIONS or not data.each(outside, [label])[label]:
            return data
    values = data.values(label, 20)
    if positive is None:
        if {value.lower() for value in values} <= {"true", "false"}:
            positive = next(value for value in sorted(values, key=str.lower) if value.lower() == "true")
        elif set(values) <= {"0", "1"}:
            positive = "1"
        elif len(values) == 2:
            raise DataError(f"label {label!r} is {values[0]!r} or {values[1]!r}: pass --positive {values[1]}")
        else:
            listed = ", ".join(map(repr, values[:5]))
            raise DataError(f"label {label!r} must be 0 or 1, but holds {listed}: pass --positive VALUE")
    elif positive not in values and not data.holds(label, positive):
        raise DataError(f"--positive {positive}: label {label!r} has no such value, but {', '.join(values[:10])}")
    return data.with_binary(label, positive)


def _guess_score(data: "Data", taken: set[str]) -> str:
    def like_a_score(name: str) -> bool:
        return name in SCORE_NAMES or _SCORE_PATTERN.search(name) is not None

    types = data.types
    likely = [name for name in _named_like(data, like_a_score, taken) if types[name].id in _FRACTIONS]
    # DuckDB takes NaN for the greatest of numbers; a score with some is refused later, by name.
    inside = data.each("bool_and({} BETWEEN 0 AND 1 OR isnan({}::DOUBLE))", likely)
    return _only(data, [name for name, yes in inside.items() if yes], "score", "predicted probabilities")


def _named_like(data: "Data", fits: Callable[[str], bool], taken: set[str]) -> list[str]:
    return [name for name in data.names if name not in taken and fits(name.lower())]


def _only(data: "Data", found: list[str], role: str, meaning: str) -> str:
    if len(found) == 1:
        return found[0]
    if found:
        raise DataError(f"which column is the {role}? {', '.join(found)} all look like it: pass --{role} {found[0]}")
    raise DataError(f"which column is the {role} ({meaning})? pass --{role} NAME; the data has {', '.join(data.names)}")


def _useless(data: "Data", n_rows: int, names: Sequence[str], dates: Mapping[str, str]) -> dict[str, str]:
    """Why columns cannot tell segments apart; those that can are not named."""
    from mbct.data.checks import find_earlier_runs

    types = data.types
    reasons = {name: f"of type {types[name]}" for name in names if types[name].id in _NO_SEGMENTS}
    reasons |= {found.column: found.reason for found in find_earlier_runs(names)}
    reasons |= {name: reason for name, reason in dates.items() if name in names}
    return reasons | _identifiers(data, n_rows, [name for name in names if name not in reasons])


def _dates(data: "Data", names: Sequence[str]) -> dict[str, str]:
    from mbct.data.checks import find_dates
    from mbct.data.columns import read_columns

    types = data.types
    likely = [name for name in names if types[name].id in _DATES or types[name].id == "varchar"]
    if not likely:
        return {}
    first = read_columns(data.first(_FIRST_ROWS, likely))
    return {found.column: found.reason for found in find_dates(first)}


def _identifiers(data: "Data", n_rows: int, names: Sequence[str]) -> dict[str, str]:
    from mbct.data.checks import identifier_reason

    types = data.types
    numbers = [name for name in names if types[name].id in _FRACTIONS]
    whole = data.each("bool_and({} = floor({}) OR isnan({}::DOUBLE))", numbers)
    doubtful = [name for name in names if types[name].id != "boolean" and whole.get(name, True)]
    if n_rows > _MANY_ROWS:
        roughly = data.each("approx_count_distinct({})", doubtful)
        doubtful = [name for name in doubtful if roughly[name] >= _NEARLY_ALL * n_rows]
    integers = _INTEGERS | _FRACTIONS
    found = {
        name: identifier_reason(distinct, n_rows, integer=types[name].id in integers)
        for name, distinct in data.each("count(DISTINCT {})", doubtful).items()
    }
    return {name: reason for name, reason in found.items() if reason is not None}
