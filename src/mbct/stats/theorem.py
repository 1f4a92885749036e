"""Theorem 1: how far a bin's label rate can be from the truth, and the bin size that keeps it near."""

import math
from bisect import bisect_left
from typing import Any

import numpy as np

from mbct.validation import FloatArray


def label_rate_bound(label_rate: Any, count: Any, n_bins: int, alpha: float = 0.05) -> FloatArray:
    """√(2·V̂_b·ln(3B/α)/c_b) + 3·ln(3B/α)/c_b, equation (bound_eq), with V̂_b = ŷ_b(1 − ŷ_b).

    Holds for all B bins at once with probability 1 − α, whatever the distribution. At most 1.

    >>> float(label_rate_bound(0.1, 10_000, n_bins=10, alpha=0.05).round(5))
    0.01265
    """
    rate = np.asarray(label_rate, dtype=np.float64)
    size = np.maximum(np.asarray(count, dtype=np.float64), 1e-12)
    log_term = math.log(3.0 * n_bins / alpha)
    bound = np.sqrt(2.0 * rate * (1.0 - rate) * log_term / size) + 3.0 * log_term / size
    return np.asarray(np.minimum(bound, 1.0), dtype=np.float64)


def min_bin_size(label_rate: float, n_rows: float, max_relative_error: float = 0.1, alpha: float = 0.05) -> int:
    """β: the largest c with ŷ_D ≤ (1/e)(√(2V̂_D·ln(3|D|/cα)/c) + 3·ln(3|D|/cα)/c), equation (mbct_app_c).

    The right side falls as c grows, so β is where the bound on a bin's rate reaches e·ŷ_D. It assumes
    B = |D|/c bins of equal mass and lies in [1, |D|].

    >>> min_bin_size(0.5, 1_000_000, max_relative_error=0.1, alpha=0.05)
    3048
    """

    def too_small(size: int) -> bool:
        log_term = math.log(3.0 * n_rows / (size * alpha))
        variance = label_rate * (1.0 - label_rate)
        bound = math.sqrt(2.0 * variance * log_term / size) + 3.0 * log_term / size
        return label_rate * max_relative_error <= bound

    return 1 + bisect_left(range(2, max(int(n_rows), 1) + 1), True, key=lambda size: not too_small(size))
