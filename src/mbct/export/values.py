"""Known values of a category as values of their own type."""

import math
import re

from mbct.errors import ModelFileError
from mbct.model.bins import CategoryBins

_INTEGER = re.compile(r"-?\d+", re.ASCII)


def is_int64(value: str) -> bool:
    """Whether a value's text is a whole number of at most 64 bits.

    >>> [is_int64(text) for text in ("-5", "9223372036854775808", "1e+22")]
    [True, False, False]
    """
    return _INTEGER.fullmatch(value) is not None and -(2**63) <= int(value) < 2**63


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
