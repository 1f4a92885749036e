"""Conditions over one raw column: which rows have certain codes of a feature."""

import math
import re
from collections.abc import Iterable

from mbct.export.spelling import number_of
from mbct.export.sql.dialects import Dialect
from mbct.model.bins import CategoryBins, Feature, NumberBins
from mbct.model.conditions import CodeBranch, intervals

BY_TEXT = ("string", "boolean")
"""Types that are compared as text: databases hold booleans as such, as 0 and 1, or as text."""
_DATE_LENGTH = len("2024-01-31")
_LARGEST_EXACT_INTEGER = 2**53
_INTEGER = re.compile(r"-?\d+", re.ASCII)
_ZONE = re.compile(r"[+-]\d\d:\d\d(:\d\d)?$", re.ASCII)


def empty_is_missing(bins: Feature) -> bool:
    """Whether the feature is compared as text and an empty one is missing."""
    return isinstance(bins, CategoryBins) and bins.value_type in BY_TEXT and bins.code_of[""] == bins.missing


def missing_condition(dialect: Dialect, bins: Feature, column: str) -> str:
    """True where the column is NULL or the empty text, or NaN in an engine that has it."""
    if empty_is_missing(bins):
        return f"{column} IS NULL OR {dialect.as_text.format(column)} = {dialect.text(dialect.suffix)}"
    numeric = isinstance(bins, NumberBins) or bins.value_type in ("integer", "number")
    if not numeric or dialect.is_nan is None:
        return f"{column} IS NULL"
    return f"{column} IS NULL OR {dialect.is_nan.format(dialect.as_double.format(column))}"


def interval_conditions(
    dialect: Dialect, bins: NumberBins, column: str, branch: CodeBranch, position: int
) -> list[str]:
    """One condition for each interval of a case of a number; NULL and NaN pass none of them."""
    value = dialect.as_double.format(column)
    found = []
    for interval in intervals(bins, branch, position):
        below = f"{value} <= {dialect.double(interval.high)}"
        above = f"{value} > {dialect.double(interval.low)} AND "
        found.append(below if math.isinf(interval.low) else f"({above}{below})")
    return found


def membership(dialect: Dialect, bins: CategoryBins, column: str, codes: Iterable[int]) -> str | None:
    """True where a category has one of the known values among ``codes``; None where there are none."""
    literals = [literal(dialect, bins, value) for code in sorted(codes) for value in spellings(bins, code)]
    listed = ", ".join(text for text in literals if text is not None)
    return f"{compared(dialect, bins).format(column)} IN ({listed})" if listed else None


def spellings(bins: CategoryBins, code: int) -> list[str]:
    """The texts that a known value may have; a value of another type has one."""
    if code >= bins.n_values:
        return []
    if bins.value_type not in BY_TEXT:
        return [bins.values[code]]
    return [text for text, its_code in bins.code_of.items() if its_code == code and text is not None]


def compared(dialect: Dialect, bins: CategoryBins) -> str:
    """Template of the column as it is compared with literals of its type."""
    templates = {
        "string": dialect.as_text,
        "boolean": dialect.as_text,
        "number": dialect.as_double,
        "date": dialect.as_date,
        "datetime": dialect.as_moment,
    }
    if bins.value_type == "integer" and dialect.casts_any and all(map(_is_exact, bins.values)):
        return dialect.as_double
    return templates.get(bins.value_type, "{}")


def _is_exact(value: str) -> bool:
    return _INTEGER.fullmatch(value) is not None and abs(int(value)) < _LARGEST_EXACT_INTEGER


def literal(dialect: Dialect, bins: CategoryBins, value: str) -> str | None:
    """A known value in the column's own type; None where no column of this engine can hold it."""
    kind = bins.value_type
    if kind in BY_TEXT:
        return dialect.text(value + dialect.suffix)
    if kind in ("date", "datetime"):
        # A timestamp at midnight is spelled as its date.
        quoted = dialect.text(value if kind == "date" or len(value) > _DATE_LENGTH else f"{value} 00:00:00")
        template = dialect.date if kind == "date" else dialect.moment
        if kind == "datetime" and _ZONE.search(value):
            template = dialect.zoned_moment
        return None if quoted is None else template.format(quoted)
    if kind == "integer" and _INTEGER.fullmatch(value):
        return value
    return _number(dialect, number_of(bins, value))


def _number(dialect: Dialect, number: float) -> str | None:
    if math.isfinite(number):
        return dialect.double(number)
    return dialect.infinity and (dialect.infinity if number > 0 else f"-{dialect.infinity}")
