"""Conditions in the data's own words: ``hour 6-9``, ``bonus 0 or 7``, ``carrier other than UA or AA``."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mbct.model.bins import Feature, NumberBins
from mbct.model.tree import runs

_MISSING, _UNSEEN = "missing", "unseen"
_SHORTEST_RANGE = 3  # Neighbouring values from which on a range reads better than a list
_MOST_SINGLE_VALUES = 32
"""Values of a number that are not whole, up to which single ones are named rather than intervals."""


@dataclass(frozen=True)
class Condition:
    """One feature restricted to some of its codes."""

    feature: str
    intervals: tuple[tuple[float, float], ...] = ()
    """Of a number: low < x ≤ high."""
    values: tuple[str, ...] = ()
    """Of a category."""
    missing: bool = False
    unseen: bool = False
    words: tuple[str, ...] = ()
    """What the feature may be, in words."""
    other_than: tuple[str, ...] = ()
    """What it may not be, where that is said faster."""

    def __str__(self) -> str:
        return self.shortened(len(self.words))

    def shortened(self, most: int) -> str:
        """In words, with about so many of them and the others counted.

        >>> Condition("day", words=("≤ 2", "5", "8-9", "missing")).shortened(2)
        'day ≤ 2, 5 or 2 more'
        >>> Condition("site", words=("a", "b"), other_than=("c",)).shortened(9)
        'site other than c'
        """
        listed = self.other_than or self.words
        if len(listed) > max(most, 1) + 1:  # "or 1 more" is no shorter than naming it
            listed = (*listed[: max(most, 1)], f"{len(listed) - max(most, 1):,} more")
        other = " other than" if self.other_than else ""
        return f"{self.feature}{other} {_listed(listed) or 'has no value'}"


def condition(feature: Feature, codes: frozenset[int]) -> Condition:
    """The restriction of a feature to some of its codes, in terms of raw values.

    >>> hour = NumberBins("hour", (0.5, 1.5, 2.5, 5.0), (0.0, 1.0, 2.0, 3.0, 7.0))
    >>> [str(condition(hour, frozenset(codes))) for codes in ([0], [1, 2, 3], [0, 4, 5], [2, 3, 4])]
    ['hour 0', 'hour 1-3', 'hour 0, 7 or missing', 'hour ≥ 2']
    """
    n_values = feature.n_values
    known = sorted(code for code in codes if code < n_values)
    missing, unseen = feature.missing in codes, feature.unseen in codes
    if isinstance(feature, NumberBins):
        intervals = tuple(_intervals(feature, known))
        named = _speaks_of_values(feature)
        words = _words_of_values(feature, known) if named else [_interval_text(*ends) for ends in intervals]
        words += [_MISSING] * missing
        if len(known) == n_values:
            words = ["anything" if missing else "known"]
        return Condition(feature.name, intervals, (), missing, unseen, tuple(words))
    values = tuple(feature.values[code] for code in known)
    words = [*map(_visible, values), *[_MISSING] * missing, *[_UNSEEN] * unseen]
    left_out = [_visible(value) for code, value in enumerate(feature.values) if code not in codes]
    left_out += [_MISSING] * (not missing)
    shorter = unseen and bool(values) and len(left_out) < len(values)
    return Condition(
        feature.name, (), values, missing, unseen, tuple(words), tuple(left_out or ["nothing"]) if shorter else ()
    )


def _visible(value: str) -> str:
    """A value in quotes where spaces at its ends would not be seen."""
    return value if value == value.strip() else repr(value)


def _speaks_of_values(feature: NumberBins) -> bool:
    whole = all(value.is_integer() for value in feature.distinct)
    return bool(feature.distinct) and (whole or len(feature.distinct) <= _MOST_SINGLE_VALUES)


def _words_of_values(feature: NumberBins, codes: Sequence[int]) -> list[str]:
    words = []
    for first, last in runs(codes):
        if last - first + 1 < _SHORTEST_RANGE:
            words += [number_text(feature.distinct[code]) for code in range(first, last + 1)]
        elif first == 0:
            words.append(f"≤ {number_text(feature.distinct[last])}")
        elif last == feature.n_values - 1:
            words.append(f"≥ {number_text(feature.distinct[first])}")
        else:
            words.append(_range(feature.distinct[first], feature.distinct[last]))
    return words


def _intervals(feature: NumberBins, codes: Sequence[int]) -> Iterator[tuple[float, float]]:
    bounds = (-math.inf, *feature.edges, math.inf)
    for first, last in runs(codes):
        yield bounds[first], bounds[last + 1]


def _interval_text(low: float, high: float) -> str:
    if math.isinf(low):
        return f"≤ {number_text(high)}"
    return f"> {number_text(low)}" if math.isinf(high) else f"{number_text(low)} to {number_text(high)}"


def _range(low: float, high: float) -> str:
    return f"{number_text(low)} to {number_text(high)}" if low < 0 else f"{number_text(low)}-{number_text(high)}"


def number_text(value: float) -> str:
    """A number with as few digits as six significant ones need; whole numbers in full.

    >>> [number_text(value) for value in (7.0, 1234567.0, 0.30000000000000004)]
    ['7', '1234567', '0.3']
    """
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"


def _listed(words: Iterable[str]) -> str:
    *rest, last = [*words] or [""]
    return f"{', '.join(rest)} or {last}" if rest else last
