"""Errors of the bins of one division: PCE, PUD, BFGPCE, and their mean in any norm."""

import numpy as np

from mbct.stats.divisions import Bins, uniform_mass
from mbct.validation import FloatArray


def partition_error(bins: Bins) -> FloatArray:
    """PCE(D_b) = |mean prediction − label rate| of each bin, equation (pce); 0 for an empty bin.

    >>> import numpy as np
    >>> partition_error(Bins(np.array([4.0]), np.array([1.0]), np.array([2.0]))).tolist()
    [0.25]
    """
    size = np.where(bins.count > 0, bins.count, 1.0)
    return np.asarray(np.abs(bins.pred - bins.label) / size, dtype=np.float64)


def prediction_ratio(bins: Bins) -> FloatArray:
    """PUD(D_b) = mean prediction / label rate: below 1 the bin is underestimated.

    Infinite where a bin has no positive but predicts some, not a number where it has and predicts none.

    >>> import numpy as np
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


def norm_of_errors(error: FloatArray, mass: FloatArray, norm: float) -> float:
    """(Σ mass·error^p / Σ mass)^{1/p}; the largest error of any mass where p is infinite."""
    counted = mass > 0
    error, mass = error[counted], mass[counted]
    if np.isinf(norm):
        return float(error.max())
    return float(np.average(error**norm, weights=mass) ** (1.0 / norm))
