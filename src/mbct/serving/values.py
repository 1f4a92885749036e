"""From one raw value to its code: closures that agree with the column-wise encoding, made for single calls."""

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from mbct.errors import DataError
from mbct.model.bins import CategoryBins, Feature, NumberBins
from mbct.model.encoding import category_key

Encoder = Callable[[Any], int]
CountUnseen = Callable[[str], None]


def encoder(feature: Feature, first_row: int = 0, count_unseen: CountUnseen | None = None) -> Encoder:
    """A function from a raw value to ``first_row`` plus its code; ``count_unseen`` hears of each unseen value."""
    if isinstance(feature, NumberBins):
        return _number_encoder(feature, first_row)
    return _category_encoder(feature, first_row, count_unseen)


def _number_encoder(feature: NumberBins, first_row: int) -> Encoder:
    # Bisecting a list and finding the row in another list costs less than adding the first row each time.
    edges, missing = list(feature.edges), first_row + feature.missing
    rows = list(range(first_row, first_row + feature.n_values))

    def encode(value: Any) -> int:
        if type(value) is not float:
            value = as_float(value)
        return rows[bisect_left(edges, value)] if value == value else missing

    return encode


def _category_encoder(feature: CategoryBins, first_row: int, count_unseen: CountUnseen | None) -> Encoder:
    find = {key: first_row + code for key, code in feature.code_of.items()}.get
    name, unseen = feature.name, first_row + feature.unseen

    def encode(value: Any) -> int:
        found = find(value if type(value) is str else category_key(value))
        if found is None:
            if count_unseen is not None:
                count_unseen(name)
            return unseen
        return found

    return encode


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


def probability(value: Any, name: str) -> float:
    """The prediction as a float in [0, 1], or one clear error."""
    if type(value) is float and 0.0 <= value <= 1.0:
        return value
    if value is None or isinstance(value, str | bytes):
        raise DataError(f"{name} must be a probability, got {value!r}; pass a number between 0 and 1")
    number = as_float(value)
    if not 0.0 <= number <= 1.0:
        raise DataError(f"{name} lies outside [0, 1]: {value!r}; pass probabilities, not log-odds or percentages")
    return number
