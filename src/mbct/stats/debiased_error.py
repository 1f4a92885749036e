"""ECE freed of the noise of the label rates (Kumar, Liang & Ma 2019)."""

import math

import numpy as np

from mbct.stats.divisions import Bins
from mbct.stats.partition_error import partition_error


def debiased_square_error(bins: Bins) -> float:
    """Σ_b (c_b/n)·[PCE(D_b)² − ŷ_b(1 − ŷ_b)/(c_b − 1)]: what label noise adds to a bin's square is taken off.

    Unbiased for the squared error of the binned predictions, hence negative at times; bins of mass one or less
    say nothing and count as 0.

    >>> import numpy as np
    >>> round(debiased_square_error(Bins(np.array([101.0]), np.array([50.5]), np.array([60.6]))), 6)
    0.0075
    """
    told = bins.count > 1.0
    size = np.where(told, bins.count, 2.0)
    rate = bins.label / size
    square = partition_error(bins) ** 2 - rate * (1.0 - rate) / (size - 1.0)
    return float(np.sum(np.where(told, bins.count * square, 0.0)) / bins.count.sum())


def debiased_error(bins: Bins) -> float:
    """√max(0, :func:`debiased_square_error`)."""
    return math.sqrt(max(debiased_square_error(bins), 0.0))
