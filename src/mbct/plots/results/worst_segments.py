"""The segments, single values and pairs of them, whose predictions are most surely wrong."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from mbct.metrics.rows import Rows
from mbct.metrics.segments import Segmentation
from mbct.plots.results.field_bias import GroupColumns, SegmentBias, group_columns, largest_values, segments_of
from mbct.stats.multiplicity import holm
from mbct.validation import FloatArray

MOST_FIELDS = 8
"""Pairs are formed of this many fields at most: those of the largest error."""
MOST_VALUES = 20
LEAST_EXPECTED = 5.0
"""A pair needs so many predicted or observed positives to be looked at."""


@dataclass(frozen=True)
class WorstSegment:
    """One segment before and after the calibration."""

    before: SegmentBias
    after: SegmentBias


@dataclass(frozen=True)
class _Grouping:
    """Rows by the values of one field, or of two: group numbers, names, and which groups are looked at.

    ``floor`` is the bias |log PCOC| that a group must surely exceed: that of the worse of a pair's two values.
    """

    field: str
    codes: npt.NDArray[np.int64]
    labels: tuple[str, ...]
    before: GroupColumns
    kept: npt.NDArray[np.bool_]
    floor: FloatArray


def worst_segments(
    before: Rows, after: Rows, fields: tuple[Segmentation, ...], order: list[int], most: int, confidence: float
) -> tuple[tuple[WorstSegment, ...], int]:
    """The ``most`` segments of the largest sure bias, and how many were tested.

    The sure bias is |log PCOC| at the end of the interval nearest to 1. A pair is listed only where it is surely worse
    than each of its two values. ``order`` numbers the fields by falling error; the first few are paired.
    """
    single = [_single(before, i, fields[i], confidence) for i in order]
    paired = combinations(zip(single[:MOST_FIELDS], order, strict=False), 2)
    pairs = [_pair(before, a, b, fields[j].name, confidence) for (a, _), (b, j) in paired]
    groupings = [*single, *pairs]
    later = [group_columns(after, each.codes, len(each.labels), confidence) for each in groupings]
    corrected = _corrected([each.before for each in groupings], groupings)
    corrected_later = _corrected(later, groupings)
    listed = []
    for each, new, p, new_p in zip(groupings, later, corrected, corrected_later, strict=True):
        was = segments_of(each.field, each.labels, each.before, p)
        now = segments_of(each.field, each.labels, new, new_p)
        for code, old, changed in zip(np.flatnonzero(each.before.sums.count > 0), was, now, strict=True):
            if each.kept[code] and old.sure and old.sure_bias > each.floor[code]:
                listed.append(WorstSegment(old, changed))
    listed.sort(key=lambda each: (-each.before.sure_bias, each.before.field, each.before.segment))
    return tuple(listed[:most]), int(sum(each.kept.sum() for each in groupings))


def _single(rows: Rows, number: int, field: Segmentation, confidence: float) -> _Grouping:
    codes, labels = largest_values(rows, number, field, MOST_VALUES)
    columns = group_columns(rows, codes, len(labels), confidence)
    return _Grouping(field.name, codes, labels, columns, columns.sums.count > 0, np.zeros(len(labels)))


def _pair(rows: Rows, first: _Grouping, second: _Grouping, second_field: str, confidence: float) -> _Grouping:
    labels = tuple(f"{a} · {second_field} = {b}" for a in first.labels for b in second.labels)
    codes = first.codes * len(second.labels) + second.codes
    columns = group_columns(rows, codes, len(labels), confidence)
    floor = np.maximum.outer(_bias(first.before), _bias(second.before)).ravel()
    enough = np.maximum(columns.sums.pred, columns.sums.label) >= LEAST_EXPECTED
    return _Grouping(first.field, codes, labels, columns, enough, floor)


def _bias(columns: GroupColumns) -> FloatArray:
    return np.asarray(np.abs(np.log(np.clip(np.nan_to_num(columns.ratio, nan=1.0), 1e-6, 1e6))), dtype=np.float64)


def _corrected(columns: list[GroupColumns], groupings: list[_Grouping]) -> list[FloatArray]:
    """Holm's correction over all segments that were looked at; the others have p-value 1."""
    chosen = [each.kept for each in groupings]
    every = holm(np.concatenate([each.p_value[kept] for each, kept in zip(columns, chosen, strict=True)]))
    parts = np.split(every, np.cumsum([int(kept.sum()) for kept in chosen])[:-1])
    found = []
    for kept, part in zip(chosen, parts, strict=True):
        full = np.ones(len(kept))
        full[kept] = part
        found.append(full)
    return found
