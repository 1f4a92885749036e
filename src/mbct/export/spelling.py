"""Feature names and category values as other languages spell them."""

import math
import re
from collections.abc import Iterable

from mbct.errors import ModelFileError
from mbct.model.bins import CategoryBins

_INTEGER = re.compile(r"-?\d+", re.ASCII)
_RESERVED = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while""".split()  # noqa: SIM905 - plainer than a list of quoted words
)
"""Keywords of C99, the only target whose identifiers can meet one."""


def identifiers(names: Iterable[str]) -> list[str]:
    """A distinct identifier of ASCII letters, digits and underscores for each name.

    >>> identifiers(["age", "number 0", "number_0", "2nd", "prix €", "int"])
    ['age', 'number_0', 'number_0_2', 'x_2nd', 'prix', 'x_int']
    """
    taken: set[str] = set()
    found = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "x"
        if plain[0].isdigit() or plain in _RESERVED:
            plain = f"x_{plain}"
        unique, number = plain, 2
        while unique in taken:
            unique, number = f"{plain}_{number}", number + 1
        taken.add(unique)
        found.append(unique)
    return found


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
