"""Conditions over one raw column: which rows have certain codes of a feature."""

import math
import re
from collections.abc import Iterable

from mbct.binning.features import CategoryBins, NumberBins
from mbct.errors import ModelFileError
from mbct.export.branches import Branch, intervals
from mbct.export.sql.dialect import Dialect

_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_ZONE = re.compile(r"[+-]\d\d:\d\d(:\d\d)?$", re.ASCII)


def missing_condition(dialect: Dialect, column: str, *, may_be_nan: bool) -> str:
    """True where the column is NULL, or NaN in an engine that has it."""
    if not may_be_nan or dialect.is_nan is None:
        return f"{column} IS NULL"
    return f"{column} IS NULL OR {dialect.is_nan.format(dialect.as_double.format(column))}"


def case_condition(dialect: Dialect, bins: NumberBins | CategoryBins, column: str, branch: Branch, position: int) -> str:
    """True for the rows of one case, given that the cases before it were tested in vain."""
    codes = branch.cases[position].codes
    parts = []
    if isinstance(bins, NumberBins):
        value = dialect.as_double.format(column)
        for interval in intervals(bins, branch, position):
            below = f"{value} <= {dialect.double(interval.high)}"
            above = f"{value} > {dialect.double(interval.low)} AND "
            parts.append(below if math.isinf(interval.low) else f"({above}{below})")
    else:
        parts.extend(_membership(dialect, bins, column, codes))
    if bins.missing in codes:
        may_be_nan = isinstance(bins, NumberBins) or bins.value_type in ("integer", "number")
        parts.append(missing_condition(dialect, column, may_be_nan=may_be_nan))
    return " OR ".join(parts) or "1 = 0"


def _membership(dialect: Dialect, bins: CategoryBins, column: str, codes: Iterable[int]) -> list[str]:
    literals = [_literal(dialect, bins, bins.values[code]) for code in sorted(codes) if code < bins.n_values]
    listed = ", ".join(literal for literal in literals if literal is not None)
    return [f"{_key(dialect, bins).format(column)} IN ({listed})"] if listed else []


def _key(dialect: Dialect, bins: CategoryBins) -> str:
    """Template of the column as it is compared with literals of its type."""
    keys = {
        "string": dialect.as_text,
        "number": dialect.as_double,
        "date": dialect.as_date,
        "datetime": dialect.as_moment,
    }
    return keys.get(bins.value_type, "{}")


def _literal(dialect: Dialect, bins: CategoryBins, value: str) -> str | None:
    """A known value in the column's own type; None where no column of this engine can hold it."""
    kind = bins.value_type
    if kind == "string":
        return dialect.text(value + dialect.suffix)
    if kind in ("date", "datetime"):
        quoted = dialect.text(value)
        template = dialect.date if kind == "date" else dialect.moment
        if kind == "datetime" and _ZONE.search(value):
            template = dialect.zoned_moment
        return None if quoted is None else template.format(quoted)
    if kind == "boolean" and value in ("true", "false"):
        return dialect.true if value == "true" else dialect.false
    if kind == "integer" and _INTEGER.fullmatch(value):
        return value
    return _number(dialect, number_of(bins, value))


def _number(dialect: Dialect, number: float) -> str | None:
    if math.isfinite(number):
        return dialect.double(number)
    return dialect.infinity and (dialect.infinity if number > 0 else f"-{dialect.infinity}")


def number_of(bins: CategoryBins, value: str) -> float:
    """The number that a value of a numeric category stands for."""
    try:
        number = float(value) if bins.value_type in ("integer", "number") else math.nan
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise ModelFileError(
            f"feature {bins.name!r} is of type {bins.value_type}, but its value {value!r} is not; fit again"
        )
    return number
