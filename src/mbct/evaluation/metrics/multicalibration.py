"""Multicalibration error: the segment whose predictions are most surely wrong."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Unpack

import numpy as np

from mbct.errors import DataError
from mbct.evaluation.metrics.resampling import IntervalOptions, prepare
from mbct.evaluation.metrics.results import Estimate
from mbct.evaluation.metrics.rows import Rows, Segmentation, check_choice, check_count, read_segments
from mbct.stats.expected_error import brownian_range_tail, cumulative_error_by_group, cumulative_scale, in_sigmas
from mbct.stats.testing import CORRECTIONS
from mbct.validation import FloatArray

ALL_ROWS = "(all)"


@dataclass(frozen=True)
class SegmentError:
    """ECCE of one segment."""

    segment: str
    """Its name, such as ``site=a``."""
    count: float
    """Sum of its weights."""
    ecce: float
    """ECCE, in probability."""
    scaled: float
    """ECCE/σ."""
    p_value: float
    """P-value of this segment alone; nan where rows belong to blocks."""
    corrected_p_value: float
    """The same, corrected for the number of segments."""


@dataclass(frozen=True, eq=False, repr=False)
class MulticalibrationEstimate(Estimate):
    """The largest scaled ECCE of any segment times the global σ."""

    scaled: float = 0.0
    """The largest ECCE/σ."""
    segments: tuple[SegmentError, ...] = ()
    """Segments, worst first."""
    correction: str = "holm"
    """Correction of the p-values."""

    @property
    def worst(self) -> SegmentError:
        """The segment that decided."""
        return self.segments[0]

    def _details(self) -> str:
        return f"{self.scaled:.3g} σ in {self.worst.segment} of {len(self.segments)} segments"


def multicalibration_error(
    y_true: Any,
    y_prob: Any,
    by: Any,
    *,
    depth: int = 1,
    min_rows: int = 10,
    correction: str = "holm",
    sample_weight: Any = None,
    **resampling: Unpack[IntervalOptions],
) -> MulticalibrationEstimate:
    """The largest ECCE/σ of any segment, times the global σ (Guy et al. 2025).

    Segments are all rows, the values of each column of ``by`` and combinations of them. Every segment is tested against
    the range of Brownian motion, which takes rows for independent: with ``time`` or ``groups`` there are no p-values.

    Parameters
    ----------
    y_true, y_prob, sample_weight, **resampling : as in :mod:`mbct.metrics`
        Rows, and keywords of the interval.
    by : frame, mapping or array
        Columns whose values are the segments.
    depth, min_rows : int, default=1 and 10
        Most columns whose values are combined into a segment, and rows that a segment must have.
    correction : "holm" or "benjamini-hochberg", default="holm"
        Correction of the p-values for the number of segments.

    Returns
    -------
    error : MulticalibrationEstimate
        A float with ``interval``, ``p_value``, ``scaled``, ``worst`` and ``segments``, worst first.
    """
    correct = CORRECTIONS[check_choice("correction", correction, tuple(CORRECTIONS))]
    check_count("min_rows", min_rows)
    groupings = tuple(_groupings(read_segments(by), check_count("depth", depth)))
    rows, how = prepare(y_true, y_prob, sample_weight, resampling, tuple(g.codes for g in groupings))
    kept = [np.bincount(codes, minlength=len(g)) >= min_rows for codes, g in zip(rows.groups, groupings, strict=True)]
    if len(rows) < min_rows:
        raise DataError(f"{len(rows)} rows are fewer than min_rows={min_rows}: lower min_rows or bring more data")

    def errors_of(rows: Rows) -> tuple[FloatArray, FloatArray]:
        parts = [
            cumulative_error_by_group(rows.y_prob, rows.y_true, rows.weight, codes, len(grouping))
            for codes, grouping in zip(rows.groups, groupings, strict=True)
        ]
        error = np.concatenate([part[mask] for (part, _), mask in zip(parts, kept, strict=True)])
        sigma = np.concatenate([part[mask] for (_, part), mask in zip(parts, kept, strict=True)])
        return error, np.asarray([in_sigmas(e, s) for e, s in zip(error, sigma, strict=True)])

    def statistic(rows: Rows) -> float:
        return float(errors_of(rows)[1].max()) * cumulative_scale(rows.y_prob, rows.weight)

    names = [grouping.labels[i] for grouping, mask in zip(groupings, kept, strict=True) for i in np.flatnonzero(mask)]
    counts = np.concatenate(
        [np.bincount(codes, rows.weight, len(m))[m] for codes, m in zip(rows.groups, kept, strict=True)]
    )
    error, scaled = errors_of(rows)
    known = rows.blocks is None
    p_values = np.asarray([brownian_range_tail(x) if known else np.nan for x in scaled])
    corrected = correct(p_values)
    columns = (names, *(a.tolist() for a in (counts, error, scaled, p_values, corrected)))
    segments = sorted((SegmentError(*row) for row in zip(*columns, strict=True)), key=lambda s: (-s.scaled, s.segment))
    return how.estimate(
        rows,
        statistic,
        MulticalibrationEstimate,
        scaled=float(scaled.max()),
        segments=tuple(segments),
        correction=correction,
        p_value=float(corrected.min()) if known else None,
        null=f"the predictions were right in every segment (range of Brownian motion, {correction} correction)"
        if known
        else None,
    )


def _groupings(columns: tuple[Segmentation, ...], depth: int) -> Iterator[Segmentation]:
    """All rows, each column, then each combination of up to ``depth`` columns."""
    n_rows = len(columns[0].codes)
    yield Segmentation("", np.zeros(n_rows, dtype=np.int64), (ALL_ROWS,))
    for size in range(1, min(depth, len(columns)) + 1):
        for chosen in combinations(columns, size):
            yield _crossed(chosen)


def _crossed(columns: tuple[Segmentation, ...]) -> Segmentation:
    """The combinations of values that occur, named ``a=1, b=x``."""
    combined = np.zeros(len(columns[0].codes), dtype=np.int64)
    for column in columns:
        combined = combined * len(column) + column.codes
    _, first, codes = np.unique(combined, return_index=True, return_inverse=True)
    labels = tuple(", ".join(f"{c.name}={c.labels[c.codes[row]]}" for c in columns) for row in first)
    return Segmentation(" × ".join(c.name for c in columns), codes.astype(np.int64), labels)
