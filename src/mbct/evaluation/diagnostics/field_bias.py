"""How far each segment's predictions are from its labels: PCOC with interval and corrected p-value, field by field."""

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.evaluation.diagnostics.reliability import wilson_interval
from mbct.evaluation.metrics.evaluation import OTHER
from mbct.evaluation.metrics.rows import Rows, Segmentation, check_choice, check_count, read_rows, read_segments
from mbct.evaluation.metrics.totals import compare_totals
from mbct.stats.divisions import Bins
from mbct.stats.partition_error import field_error, prediction_ratio
from mbct.stats.testing import CORRECTIONS, holm
from mbct.training.folds import BlockColumns, BlockSize
from mbct.validation import FloatArray

SIGNIFICANT = 0.05
"""A corrected p-value below this is marked."""


@dataclass(frozen=True)
class SegmentBias:
    """One segment: its size, rates, PCOC = predicted / observed positives with interval, and its p-values."""

    field: str
    segment: str
    count: float
    label_rate: float
    mean_prediction: float
    ratio: float
    lower: float
    upper: float
    p_value: float
    corrected_p_value: float

    @property
    def significant(self) -> bool:
        """Whether the bias is beyond chance, after the correction for the number of segments."""
        return self.corrected_p_value < SIGNIFICANT

    @property
    def significant_bias(self) -> float:
        """|log PCOC| at the end of the interval nearest to 1; 0 where the interval holds 1."""
        if self.lower > 1.0:
            return float(np.log(self.lower))
        return float(-np.log(max(self.upper, 1e-12))) if self.upper < 1.0 else 0.0


@dataclass(frozen=True)
class FieldBias:
    """One field: its error over all values, and its segments by rising PCOC."""

    field: str
    error: float
    n_values: int
    segments: tuple[SegmentBias, ...]


@dataclass(frozen=True)
class GroupColumns:
    """Segments of one grouping as columns, before any correction."""

    sums: Bins
    ratio: FloatArray
    lower: FloatArray
    upper: FloatArray
    p_value: FloatArray


def compute_field_bias(
    y_true: Any,
    y_prob: Any,
    by: Any,
    *,
    sample_weight: Any = None,
    max_values: int = 20,
    confidence: float = 0.95,
    correction: str = "holm",
    time: Any = None,
    groups: Any = None,
    block: BlockSize = "day",
) -> tuple[FieldBias, ...]:
    """PCOC of every value of every column of ``by``, columns of the largest Field-ECE first.

    The ``max_values`` largest values of a column are segments of their own, the others share one. P-values suppose
    right predictions and are corrected for the number of all segments. With arrays of ``time`` or ``groups``
    both go by whole blocks: a ``block`` of time is a "day", "week", "hour" or one of a number of stretches.

    >>> found = compute_field_bias([0, 1, 1, 1], [0.5] * 4, {"site": ["a", "a", "b", "b"]})
    >>> [(s.segment, s.ratio) for s in found[0].segments]
    [('b', 0.5), ('a', 1.0)]
    """
    fields = read_segments(by)
    rows = read_rows(
        y_true, y_prob, sample_weight, tuple(field.codes for field in fields), BlockColumns(time, groups, block)
    )
    return field_bias_of_rows(rows, fields, max_values, confidence, correction)


def field_bias_of_rows(
    rows: Rows, fields: tuple[Segmentation, ...], max_values: int, confidence: float, correction: str
) -> tuple[FieldBias, ...]:
    """:func:`compute_field_bias` of rows that were checked before."""
    check_count("max_values", max_values)
    correct = CORRECTIONS[check_choice("correction", correction, tuple(CORRECTIONS))]
    parts = [largest_values(rows, i, field, max_values) for i, field in enumerate(fields)]
    columns = [group_columns(rows, part, confidence) for part in parts]
    corrected = np.split(
        correct(np.concatenate([each.p_value for each in columns])), np.cumsum([len(part) for part in parts])
    )
    found = []
    for i, (field, part, each) in enumerate(zip(fields, parts, columns, strict=True)):
        whole = rows.values(i, len(field))
        segments = segments_of(part, each, corrected[i])
        ordered = tuple(sorted(segments, key=lambda segment: (segment.ratio, segment.segment)))
        found.append(FieldBias(field.name, field_error(whole), int(np.sum(whole.count > 0)), ordered))
    return tuple(sorted(found, key=lambda each: (-each.error, each.field)))


def group_columns(rows: Rows, groups: Segmentation, confidence: float) -> GroupColumns:
    """PCOC, interval and p-value of each group; the interval is that of the label rate, turned over."""
    found = compare_totals(rows, groups.codes, len(groups), confidence)
    count, label, pred = found.sums.count, found.sums.label, found.sums.pred
    size = np.maximum(count, 1e-300)
    low_rate, high_rate = wilson_interval(label / size, found.size, confidence)
    with np.errstate(divide="ignore", invalid="ignore"):
        lower, upper = pred / size / high_rate, pred / size / low_rate
    return GroupColumns(found.sums, prediction_ratio(found.sums), lower, upper, found.p_value)


def segments_of(groups: Segmentation, columns: GroupColumns, corrected: FloatArray) -> list[SegmentBias]:
    """The groups that have rows, one by one."""
    sums = columns.sums
    return [
        SegmentBias(
            groups.name,
            groups.labels[i],
            float(sums.count[i]),
            float(sums.label[i] / sums.count[i]),
            float(sums.pred[i] / sums.count[i]),
            float(columns.ratio[i]),
            float(columns.lower[i]),
            float(columns.upper[i]),
            float(columns.p_value[i]),
            float(corrected[i]),
        )
        for i in np.flatnonzero(sums.count > 0)
    ]


def largest_values(rows: Rows, number: int, field: Segmentation, most: int) -> Segmentation:
    """The ``number``-th field of the rows that count, with all but its ``most`` largest values joined."""
    codes = rows.groups[number]
    weight = np.bincount(codes, rows.weight, len(field))
    n_joined = int(np.sum(weight > 0)) - most
    if n_joined <= 1:
        return replace(field, codes=codes)
    largest = np.sort(np.argsort(-weight, kind="stable")[:most])
    position = np.full(len(field), most, dtype=np.int64)
    position[largest] = np.arange(most)
    labels = (*(field.labels[code] for code in largest), f"{OTHER}: {n_joined:,} values")
    return Segmentation(field.name, position[codes], labels)


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
    """Rows by the values of one field, or of two, and which groups are looked at.

    ``floor`` is the bias |log PCOC| that a group must surely exceed: that of the worse of a pair's two values.
    """

    groups: Segmentation
    before: GroupColumns
    kept: npt.NDArray[np.bool_]
    floor: FloatArray


def worst_segments(
    before: Rows, after: Rows, fields: tuple[Segmentation, ...], order: list[int], most: int, confidence: float
) -> tuple[tuple[WorstSegment, ...], int]:
    """The ``most`` segments of the largest significant bias, and how many were tested.

    The significant bias is |log PCOC| at the end of the interval nearest to 1. A pair is listed only where it is
    significantly worse than each of its two values. ``order`` numbers the fields by falling error; the
    first few are paired.
    """
    single = [_single(before, i, fields[i], confidence) for i in order]
    pairs = [_pair(before, a, b, confidence) for a, b in combinations(single[:MOST_FIELDS], 2)]
    groupings = [*single, *pairs]
    later = [group_columns(after, each.groups, confidence) for each in groupings]
    corrected = _corrected([each.before for each in groupings], groupings)
    corrected_later = _corrected(later, groupings)
    listed = []
    for each, new, p, new_p in zip(groupings, later, corrected, corrected_later, strict=True):
        was, now = segments_of(each.groups, each.before, p), segments_of(each.groups, new, new_p)
        for code, old, changed in zip(np.flatnonzero(each.before.sums.count > 0), was, now, strict=True):
            if each.kept[code] and old.significant and old.significant_bias > each.floor[code]:
                listed.append(WorstSegment(old, changed))
    listed.sort(key=lambda each: (-each.before.significant_bias, each.before.field, each.before.segment))
    return tuple(listed[:most]), int(sum(each.kept.sum() for each in groupings))


def _single(rows: Rows, number: int, field: Segmentation, confidence: float) -> _Grouping:
    groups = largest_values(rows, number, field, MOST_VALUES)
    columns = group_columns(rows, groups, confidence)
    return _Grouping(groups, columns, columns.sums.count > 0, np.zeros(len(groups)))


def _pair(rows: Rows, first: _Grouping, second: _Grouping, confidence: float) -> _Grouping:
    one, other = first.groups, second.groups
    labels = tuple(f"{a} · {other.name} = {b}" for a in one.labels for b in other.labels)
    groups = Segmentation(one.name, one.codes * len(other) + other.codes, labels)
    columns = group_columns(rows, groups, confidence)
    floor = np.maximum.outer(_bias(first.before), _bias(second.before)).ravel()
    enough = np.maximum(columns.sums.pred, columns.sums.label) >= LEAST_EXPECTED
    return _Grouping(groups, columns, enough, floor)


def _bias(columns: GroupColumns) -> FloatArray:
    return np.asarray(np.abs(np.log(np.clip(np.nan_to_num(columns.ratio, nan=1.0), 1e-6, 1e6))), dtype=np.float64)


def _corrected(columns: list[GroupColumns], groupings: list[_Grouping]) -> list[FloatArray]:
    """Holm's correction over all segments that were looked at; the others have p-value 1."""
    chosen = [each.kept for each in groupings]
    every = holm(np.concatenate([each.p_value[kept] for each, kept in zip(columns, chosen, strict=True)]))
    found = [np.ones(len(kept)) for kept in chosen]
    ends = np.cumsum([int(kept.sum()) for kept in chosen])[:-1]
    for p_value, kept, part in zip(found, chosen, np.split(every, ends), strict=True):
        p_value[kept] = part
    return found
