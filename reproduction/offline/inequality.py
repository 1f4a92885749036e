"""The inequality of Section 4.3 that relates α and e to a bin size."""

import math

from scipy.optimize import brentq


def bin_size(rate: float, n_rows: int, max_relative_error: float, alpha: float) -> int:
    """The largest c with e·ŷ ≤ √(2ŷ(1 − ŷ)·ln(3n/cα)/c) + 3·ln(3n/cα)/c, equation (mbct_app_c).

    >>> bin_size(0.5, 1_000_000, max_relative_error=0.1, alpha=0.05)
    3048
    """

    def excess(size: float) -> float:
        log_term = math.log(3.0 * n_rows / (size * alpha))
        bound = math.sqrt(2.0 * rate * (1.0 - rate) * log_term / size) + 3.0 * log_term / size
        return bound - rate * max_relative_error

    return n_rows if excess(n_rows) >= 0.0 else math.floor(brentq(excess, 1.0, n_rows, xtol=1e-9))
