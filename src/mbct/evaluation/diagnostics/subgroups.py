"""PUD of the sub-groups of bins: whether rows of a bin share one bias (the paper's figure), and an axis of ratios."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.calibrators.score_only.binning import HistogramCalibrator
from mbct.evaluation.diagnostics.calibrated_rows import CalibratedRows
from mbct.evaluation.metrics.rows import check_count, read_rows
from mbct.stats.divisions import by_group, uniform_mass
from mbct.stats.partition_error import prediction_ratio
from mbct.validation import FloatArray, as_column, same_length

DEFAULT_PARTS = 4


@dataclass(frozen=True, eq=False)
class SubgroupRatios:
    """For each bin of a method the mean prediction / label rate of its equal parts."""

    name: str
    ratio: FloatArray
    """Shape (bins, parts); infinite where a part has no positive."""
    count: FloatArray
    """Rows of each bin."""

    @property
    def spread(self) -> float:
        """Mean |log PUD| over the sub-groups that have a positive: 0 where every part is right."""
        usable = np.isfinite(self.ratio) & (self.ratio > 0)
        weight = np.broadcast_to(self.count[:, None], self.ratio.shape)[usable]
        if not usable.any():
            return float("nan")
        return float(np.average(np.abs(np.log(self.ratio[usable])), weights=weight))


def compute_subgroups(
    y_true: Any,
    y_prob: Any,
    bins: Any,
    *,
    order: Any = None,
    n_parts: int = DEFAULT_PARTS,
    name: str = "",
    sample_weight: Any = None,
) -> SubgroupRatios:
    """Cut every bin into ``n_parts`` of equal weight along ``order`` (the prediction if None) and take each one's PUD.

    ``bins`` numbers the bin of each row; ``order`` holds numbers, such as the codes of a feature's values.

    >>> found = compute_subgroups([0, 1, 1, 1], [0.5] * 4, [0, 0, 0, 0], order=[0, 0, 1, 1], n_parts=2)
    >>> found.ratio.tolist()
    [[1.0, 0.5]]
    """
    check_count("n_parts", n_parts)
    column = as_column(bins, "bins")
    along = as_column(y_prob if order is None else order, "order").astype(np.float64)
    for label, each in (("bins", column), ("order", along)):
        same_length(len(as_column(y_true, "y_true")), **{label: each})
    numbers = np.unique(column, return_inverse=True)[1].astype(np.int64)
    ranks = np.unique(along, return_inverse=True)[1].astype(np.int64)
    rows = read_rows(y_true, y_prob, sample_weight, (numbers, ranks))
    ratios, counts = [], []
    for number in np.unique(rows.groups[0]):
        part = rows.take(rows.groups[0] == number)
        # Rows of equal rank are joined: their order among themselves must not matter.
        distinct, position = np.unique(part.groups[1], return_inverse=True)
        along_order = by_group(part.bins, position, len(distinct))
        ratios.append(prediction_ratio(uniform_mass(along_order, n_parts)))
        counts.append(float(part.weight.sum()))
    return SubgroupRatios(name, np.asarray(ratios), np.asarray(counts))


def bins_of_equal_weight(value: FloatArray, weight: FloatArray, n_bins: int) -> npt.NDArray[np.int64]:
    """Number of each row's bin when rows are cut by ``value`` into about equal weights; equal values stay together.

    >>> bins_of_equal_weight(np.array([3.0, 1.0, 1.0, 2.0]), np.ones(4), 2).tolist()
    [1, 0, 0, 1]
    """
    position = np.unique(value, return_inverse=True)[1]
    total = np.bincount(position, weight)
    middle = np.cumsum(total) - total / 2.0
    number = np.minimum((middle / total.sum() * n_bins).astype(np.int64), n_bins - 1)
    return np.unique(number, return_inverse=True)[1].astype(np.int64)[position]


def rank_by(first: npt.NDArray[Any], then: FloatArray) -> npt.NDArray[np.int64]:
    """Rank of every row by ``first`` and, within equal values, by ``then``; equal pairs share a rank.

    >>> rank_by(np.array([1, 0, 1]), np.array([0.5, 0.9, 0.2])).tolist()
    [2, 0, 1]
    """
    order = np.lexsort((then, first))
    a, b = first[order], then[order]
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.concatenate([[0], np.cumsum((a[1:] != a[:-1]) | (b[1:] != b[:-1]))])
    return rank


def compare_with_histogram(
    rows: CalibratedRows, histogram: HistogramCalibrator, codes: Any, n_bins: int, n_parts: int, name: str
) -> tuple[SubgroupRatios, SubgroupRatios]:
    """Sub-groups of the calibrator's bins (rows of about equal move) and of the histogram's.

    Bins are divided along ``codes`` and, within a code, along the prediction before the calibration.
    """
    order = rank_by(codes, rows.before)
    binned = histogram.calibrate(rows.before)
    columns = (
        (name, rows.after, bins_of_equal_weight(rows.move, rows.weight, n_bins)),
        (
            "histogram binning",
            binned,
            np.searchsorted(np.asarray(histogram.map_.to_dict()["edges"]), rows.before, side="left"),
        ),
    )
    first, second = (
        compute_subgroups(rows.y_true, prob, bins, order=order, n_parts=n_parts, name=title, sample_weight=rows.weight)
        for title, prob, bins in columns
    )
    return first, second


def ratio_ticks(low: float, high: float) -> list[float]:
    """Round ratios between two ends, finer where the range is narrow.

    >>> ratio_ticks(0.4, 2.5)
    [0.5, 0.7, 1.0, 1.5, 2.0]
    """
    fine = (0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.25)
    middle = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0)
    plain = (0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0)
    wide = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
    chosen = fine if high / low < 1.5 else middle if high / low < 3.5 else plain if high / low < 12 else wide
    return [tick for tick in chosen if low <= tick <= high]


def ratio_limits(values: Iterable[Any], widest: float = 20.0) -> tuple[float, float]:
    """Ends of a ratio axis that hold all finite values (numbers or arrays), with 1 inside and a little room.

    >>> ratio_limits([0.5, 2.0, float("inf")])
    (0.45..., 2.2...)
    """
    found = np.concatenate([np.ravel(np.asarray(each, dtype=np.float64)) for each in values])
    found = found[np.isfinite(found) & (found > 0)]
    low, high = (float(found.min()), float(found.max())) if len(found) else (1.0, 1.0)
    return max(min(low / 1.1, 0.9), 1.0 / widest), min(max(high * 1.1, 1.1), widest)
