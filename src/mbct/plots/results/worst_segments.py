"""The segments, single values and pairs of them, whose predictions are most surely wrong."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from mbct.metrics.rows import Rows
from mbct.metrics.segments import Segmentation
from mbct.plots.results.field_bias import GroupColumns, SegmentBias, group_columns, largest_values, segments_of
from mbct.stats.multiplicity import holm

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


def worst_segments(
    before: Rows, after: Rows, fields: tuple[Segmentation, ...], order: list[int], most: int, confidence: float
) -> tuple[tuple[WorstSegment, ...], int]:
    """The ``most`` segments of the largest sure bias, and how many were tested.

    The sure bias is |log PCOC| at the end of the interval nearest to 1. A pair is listed only where it is surely worse
    than each of its two values. ``order`` numbers the fields by falling error; the first few are paired.
    """
    single = [(i, *largest_values(before, i, fields[i], MOST_VALUES)) for i in order]
    pairs = []
    groupings = [((i,), codes, labels) for i, codes, labels in single]
    for (i, a, a_names), (j, b, b_names) in combinations(single[:MOST_FIELDS], 2):
        labels = tuple(f"{x} · {fields[j].name} = {y}" for x in a_names for y in b_names)
        pairs.append(((i, j), a * len(b_names) + b, labels))
    groupings += pairs
    old = [group_columns(before, codes, len(labels), confidence) for _, codes, labels in groupings]
    new = [group_columns(after, codes, len(labels), confidence) for _, codes, labels in groupings]
    kept = [_large_enough(columns, len(each[0])) for each, columns in zip(groupings, old, strict=True)]
    corrected = [_corrected(columns, kept) for columns in (old, new)]
    listed = []
    parents: dict[tuple[int, int], float] = {}
    for g, (numbers, _, labels) in enumerate(groupings):
        name = fields[numbers[0]].name
        bias = np.abs(np.log(np.clip(old[g].ratio, 1e-6, 1e6)))
        was, now = (segments_of(name, labels, c[g], p[g]) for c, p in zip((old, new), corrected, strict=True))
        for position, code in enumerate(np.flatnonzero(old[g].sums.count > 0).tolist()):
            if len(numbers) == 1:
                parents[numbers[0], code] = float(bias[code])
                floor = 0.0
            else:
                width = len(groupings[order.index(numbers[1])][2])
                floor = max(parents[numbers[0], code // width], parents[numbers[1], code % width])
            if kept[g][code] and was[position].sure and was[position].sure_bias > floor:
                listed.append(WorstSegment(was[position], now[position]))
    listed.sort(key=lambda each: (-each.before.sure_bias, each.before.field, each.before.segment))
    return tuple(listed[:most]), int(sum(mask.sum() for mask in kept))


def _large_enough(columns: GroupColumns, n_fields: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    if n_fields == 1:
        return columns.sums.count > 0
    return np.maximum(columns.sums.pred, columns.sums.label) >= LEAST_EXPECTED


def _corrected(
    columns: list[GroupColumns], kept: list[np.ndarray[tuple[int], np.dtype[np.bool_]]]
) -> list[np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Holm's correction over all segments that were looked at."""
    every = holm(np.concatenate([each.p_value[mask] for each, mask in zip(columns, kept, strict=True)]))
    found, start = [], 0
    for mask in kept:
        each = np.ones(len(mask))
        each[mask] = every[start : start + int(mask.sum())]
        start += int(mask.sum())
        found.append(each)
    return found
