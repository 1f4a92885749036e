"""Errors of the bins of one division: PCE, PUD, BFGPCE, and their mean in any norm."""

import math
from dataclasses import dataclass

import numpy as np

from mbct.stats.divisions import Bins, uniform_mass
from mbct.validation import FloatArray


def partition_error(bins: Bins) -> FloatArray:
    """PCE(D_b) = |mean prediction − label rate| of each bin, equation (pce); 0 for an empty bin.

    >>> partition_error(Bins(np.array([4.0]), np.array([1.0]), np.array([2.0]))).tolist()
    [0.25]
    """
    size = np.where(bins.count > 0, bins.count, 1.0)
    return np.asarray(np.abs(bins.pred - bins.label) / size, dtype=np.float64)


def prediction_ratio(bins: Bins) -> FloatArray:
    """PUD(D_b) = mean prediction / label rate: below 1 the bin is underestimated.

    Infinite where a bin has no positive but predicts some, not a number where it has and predicts none.

    >>> prediction_ratio(Bins(np.array([4.0, 1.0]), np.array([2.0, 0.0]), np.array([1.0, 0.3]))).tolist()
    [0.5, inf]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(bins.pred / bins.label, dtype=np.float64)


def finer_partition_error(bin_rows: Bins, n_parts: int) -> float:
    """BFGPCE_{k,div}(D_b) = (1/k) Σ PCE of k equal parts of one bin, equation (fine_grain_loss).

    ``bin_rows`` are the rows of the bin in the order of the division: sorted, shuffled or by a feature.
    """
    return float(np.mean(partition_error(uniform_mass(bin_rows, n_parts))))


def norm_of_errors(error: FloatArray, weight: FloatArray, norm: float) -> float:
    """(Σ weight·error^p / Σ weight)^{1/p}; the largest error of any weight where p is infinite."""
    counted = weight > 0
    error, weight = error[counted], weight[counted]
    if np.isinf(norm):
        return float(error.max())
    return float(np.average(error**norm, weights=weight) ** (1.0 / norm))


def debiased_square_error(bins: Bins) -> float:
    """Σ_b (c_b/n)·[PCE(D_b)² − ŷ_b(1 − ŷ_b)/(c_b − 1)]: what label noise adds to a bin's square is taken off.

    Unbiased for the squared error of the binned predictions, hence negative at times; bins of weight one or less
    say nothing and count as 0.

    >>> round(debiased_square_error(Bins(np.array([101.0]), np.array([50.5]), np.array([60.6]))), 6)
    0.0075
    """
    usable = bins.count > 1.0
    size = np.where(usable, bins.count, 2.0)
    rate = bins.label / size
    square = partition_error(bins) ** 2 - rate * (1.0 - rate) / (size - 1.0)
    return float(np.sum(np.where(usable, bins.count * square, 0.0)) / bins.count.sum())


def debiased_error(bins: Bins) -> float:
    """√max(0, :func:`debiased_square_error`)."""
    return math.sqrt(max(debiased_square_error(bins), 0.0))


def true_calibration_error(truth: FloatArray, y_prob: FloatArray, weight: FloatArray, norm: float = 2.0) -> float:
    """TCE_p = (E|E[Y|X] − f(X)|^p)^{1/p}, equation (tce).

    >>> true_calibration_error(np.array([0.25, 0.5]), np.array([0.5, 0.5]), np.ones(2), norm=1)
    0.125
    """
    return norm_of_errors(np.abs(truth - y_prob), weight, norm)


def shuffled_view(rows: Bins, rng: np.random.Generator) -> Bins:
    """The rows in random order: a uniform-mass division of it is one view of MVCE."""
    order = rng.permutation(len(rows))
    return Bins(rows.count[order], rows.label[order], rows.pred[order])


def field_error(values: Bins) -> float:
    """Field-ECE = (1/n) Σ_v |Σ_{i∈v}(y − p)|: the division by a field's values, each weighted by its rows.

    >>> field_error(Bins(np.array([4.0, 4.0]), np.array([2.0, 0.0]), np.array([1.0, 1.0])))
    0.25
    """
    return norm_of_errors(partition_error(values), values.count, 1.0)


@dataclass(frozen=True)
class RelativeFieldError:
    """Field-RCE, once without the values that have no positive, once with all values."""

    seen: float
    """Over the values with a positive, renormalised to them: what public code reports."""
    all_values: float
    """Over all values; one without a positive is taken to have one."""
    unseen_share: float
    """Share of the rows whose value has no positive."""


def relative_field_error(values: Bins) -> RelativeFieldError:
    """Field-RCE = (1/n) Σ_v n_v·|Σ_{i∈v}(p − y)| / Σ_{i∈v} y."""
    counted = values.count > 0
    count, label = values.count[counted], values.label[counted]
    gap = np.abs(values.pred[counted] - label)
    seen = label > 0
    relative = gap / np.where(seen, label, 1.0)
    weight = float(count[seen].sum())
    of_seen = float(np.sum(count[seen] * relative[seen])) / weight if weight > 0 else float("nan")
    total = float(count.sum())
    return RelativeFieldError(of_seen, float(np.sum(count * relative)) / total, 1.0 - weight / total)


def calibration_n(blocks: Bins) -> tuple[float, int]:
    """Cal-N = √(mean e²), e = PCOC − 1 where PCOC ≥ 1, else 1/PCOC − 1; and the number of blocks left out.

    A block without positives or without predicted positives has no finite e and is left out.
    """
    usable = (blocks.label > 0) & (blocks.pred > 0)
    ratio = prediction_ratio(Bins(blocks.count[usable], blocks.label[usable], blocks.pred[usable]))
    error = np.maximum(ratio, 1.0 / ratio) - 1.0
    left_out = int(np.sum((blocks.count > 0) & ~usable))
    if not usable.any():
        return float("nan"), left_out
    largest = float(error.max()) or 1.0  # taken out first, so that the square of a huge error does not overflow
    return largest * float(np.sqrt(np.mean((error / largest) ** 2))), left_out
