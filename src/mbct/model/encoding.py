"""One spelling of each category value and one float of each number, whatever type a runtime gives them.

============================ ==============================================================================
value                        spelling
============================ ==============================================================================
text                         itself, spaces included; the empty text is missing
``True``, ``"True"``, TRUE   ``true``, and ``false`` likewise
3, 3.0, Decimal("3.00")      ``3``; other numbers as Python writes them
a date                       ``2024-01-31``
a timestamp                  ``2024-01-31 05:00:00`` in UTC if it has a zone; at midnight that of the date
None, NaN, NaT               missing
============================ ==============================================================================
"""

import datetime
import decimal
import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from mbct.errors import DataError

ValueType = Literal["string", "integer", "number", "boolean", "date", "datetime"]

BOOLEAN_SPELLINGS = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
"""How languages and databases write booleans as text, and our spelling."""
_LARGEST_EXACT_INTEGER = 2.0**53
_NUMBERS = (int, float, np.integer, np.floating, decimal.Decimal)
_MIDNIGHT = " 00:00:00"


def category_key(value: Any) -> str | None:
    """Canonical text of a category value; None where it is missing.

    An integer column that holds a missing value often arrives as floats: 3 and 3.0 are the same category.

    >>> [category_key(v) for v in (3, 3.0, "3", True, "TRUE", 2.5, None, "", float("nan"))]
    ['3', '3', '3', 'true', 'true', '2.5', None, None, None]
    >>> [category_key(datetime.datetime(2024, 1, 31, h, tzinfo=datetime.timezone.utc)) for h in (0, 5)]
    ['2024-01-31', '2024-01-31 05:00:00']
    """
    if isinstance(value, str):
        return BOOLEAN_SPELLINGS.get(value, str(value)) or None
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
        return None if np.isnat(value) else _key_of_date(value.astype("datetime64[us]").item())
    if isinstance(value, datetime.date):
        return None if value != value else _key_of_date(value)
    if isinstance(value, bytes):
        return category_key(value.decode("utf-8", "replace"))
    return None if _is_missing(value) else str(value)


def key_as(kind: ValueType, text: str) -> str | None:
    """Canonical text of a value of type ``kind`` that arrived as text; None where it is no such value.

    >>> key_as("integer", "1.0"), key_as("datetime", "2024-01-31T05:00:00+01:00"), key_as("integer", "one")
    ('1', '2024-01-31 04:00:00', None)
    """
    try:
        if kind in ("integer", "number"):
            return _key_of_float(float(text))
        if kind in ("date", "datetime"):
            return _key_of_date(datetime.datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return None
    return None


def other_spellings(kind: ValueType, code_of: Mapping[str, int]) -> dict[str, int]:
    """Codes of known values under their other spellings: booleans as text, and as the 0 and 1 of many databases.

    >>> other_spellings("boolean", {"true": 0})
    {'True': 0, 'TRUE': 0, '1': 0}
    """
    spelled = {other: code_of[known] for other, known in BOOLEAN_SPELLINGS.items() if known in code_of}
    if kind == "boolean" or (kind == "string" and code_of.keys() <= {"true", "false", ""}):
        spelled |= {digit: code_of[known] for digit, known in (("1", "true"), ("0", "false")) if known in code_of}
    if kind in ("integer", "number"):
        as_digits = {"true": "1", "false": "0"}
        as_digits |= {other: as_digits[known] for other, known in BOOLEAN_SPELLINGS.items()}
        spelled |= {word: code_of[digit] for word, digit in as_digits.items() if digit in code_of}
    return {text: code for text, code in spelled.items() if text not in code_of}


def as_float(value: Any) -> float:
    """A value as float, NaN where it is missing or no number at all, ±∞ where it is too large for a float.

    >>> as_float("2.5"), as_float(None), as_float(-(10**400))
    (2.5, nan, -inf)
    """
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def as_probability(value: Any, name: str) -> float:
    """One prediction as a float in [0, 1], or one clear error."""
    if type(value) is float and 0.0 <= value <= 1.0:
        return value
    if value is None or isinstance(value, str | bytes):
        raise DataError(f"{name} must be a probability, got {value!r}; pass a number between 0 and 1")
    number = as_float(value)
    if not 0.0 <= number <= 1.0:
        raise DataError(f"{name} lies outside [0, 1]: {value!r}; pass probabilities, not log-odds or percentages")
    return number


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


def _key_of_date(value: datetime.date | datetime.datetime) -> str:
    if not isinstance(value, datetime.datetime):
        return value.isoformat()
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC)
    # Built anew, because a timestamp of pandas holds nanoseconds, which no other runtime keeps.
    plain = datetime.datetime(*value.timetuple()[:6], value.microsecond)
    return plain.isoformat(sep=" ").removesuffix(_MIDNIGHT)


def _is_missing(value: Any) -> bool:
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return True
