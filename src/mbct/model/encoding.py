"""One text for each category value, whatever type the frame gave it."""

import datetime
import decimal
import math
from typing import Any, Literal

import numpy as np

ValueType = Literal["string", "integer", "number", "boolean", "date", "datetime"]

_LARGEST_EXACT_INTEGER = 2.0**53
_NUMBERS = (int, float, np.integer, np.floating, decimal.Decimal)


def category_key(value: Any) -> str | None:
    """Canonical text of a category value; None where it is missing.

    An integer column that holds a missing value often arrives as floats: 3 and 3.0 are the same category.

    >>> [category_key(v) for v in (3, 3.0, "3", True, 2.5, None, float("nan"))]
    ['3', '3', '3', 'true', '2.5', None, None]
    """
    if isinstance(value, str):
        return str(value)
    if value is None:
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return _key_of_float(float(value))
    if isinstance(value, decimal.Decimal):
        return _key_of_decimal(value)
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else _key_of_moment(value.astype("datetime64[us]").item())
    if isinstance(value, datetime.date):
        return None if value != value else _key_of_moment(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return None if _is_missing(value) else str(value)


def value_type(values: list[Any]) -> ValueType:
    """The narrowest type that all present values share; "string" where they are mixed.

    >>> value_type([1, 2.0, None]), value_type([True, False]), value_type(["a", 1])
    ('integer', 'boolean', 'string')
    """
    present = [v for v in values if category_key(v) is not None]
    if not present:
        return "string"
    if all(isinstance(v, bool | np.bool_) for v in present):
        return "boolean"
    if all(isinstance(v, _NUMBERS) and not isinstance(v, bool) for v in present):
        return "integer" if all(v == int(v) if math.isfinite(v) else False for v in present) else "number"
    if all(isinstance(v, datetime.datetime | np.datetime64) for v in present):
        return "datetime"
    if all(isinstance(v, datetime.date) for v in present):
        return "date"
    return "string"


def _key_of_float(value: float) -> str | None:
    if math.isnan(value):
        return None
    if value.is_integer() and abs(value) < _LARGEST_EXACT_INTEGER:
        return str(int(value))
    return repr(value)


def _key_of_decimal(value: decimal.Decimal) -> str | None:
    """1.50 is 1.5, and a whole number keeps all its digits."""
    if value.is_finite() and value == value.to_integral_value():
        return str(int(value))
    return _key_of_float(float(value))


def _key_of_moment(value: datetime.date | datetime.datetime) -> str:
    return value.isoformat(sep=" ") if isinstance(value, datetime.datetime) else value.isoformat()


def _is_missing(value: Any) -> bool:
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return True
