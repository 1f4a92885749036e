"""Where numbers are cut: edges of about equal mass, or of equal width."""

import numpy as np

from mbct.jit import kernel
from mbct.validation import FloatArray

_TIE = 1e-9


def equal_width_edges(n_bins: int, low: float = 0.0, high: float = 1.0) -> FloatArray:
    """Inner edges of ``n_bins`` bins of one width; the paper's 100 buckets of the prediction.

    >>> equal_width_edges(4).tolist()
    [0.25, 0.5, 0.75]
    """
    steps = np.arange(1, n_bins)
    return np.asarray(low + (high - low) * steps / n_bins, dtype=np.float64)


def mass_edges(values: FloatArray, mass: FloatArray, n_bins: int) -> FloatArray:
    """Inner edges of at most ``n_bins`` bins of about equal mass, from distinct sorted values and their mass.

    A value too frequent for one bin has a bin of its own, so a column that is 96 % zeros keeps the other
    4 % apart; with at most ``n_bins`` distinct values each has its own. An edge lies between two neighbouring
    values, at the number with the fewest digits there, so that rules read well and a float32 copy of the data
    falls on the same side.

    >>> import numpy as np
    >>> mass_edges(np.array([0.0, 1.0, 2.0, 3.0]), np.array([96.0, 1.0, 1.0, 2.0]), 3).tolist()
    [0.5, 2.5]
    """
    last = np.arange(len(values) - 1) if len(values) <= n_bins else _last_of_bins(mass, n_bins)
    return np.array([_roundest_between(values[i], values[i + 1]) for i in last], dtype=np.float64)


@kernel
def _last_of_bins(mass: FloatArray, n_bins: int) -> np.ndarray:
    """Positions of the last value of each bin but the final one."""
    last = np.empty(len(mass), np.int64)
    n_edges = 0
    left = mass.sum()
    target = left / n_bins
    gathered = 0.0
    for i in range(len(mass) - 1):
        frequent = mass[i] >= target * (1.0 - _TIE)
        if gathered > 0.0 and frequent:
            last[n_edges] = i - 1
            n_edges += 1
            left -= gathered
            gathered = 0.0
            if n_edges >= n_bins - 1:
                break
        gathered += mass[i]
        if gathered >= target * (1.0 - _TIE):
            last[n_edges] = i
            n_edges += 1
            left -= gathered
            gathered = 0.0
            target = left / max(n_bins - n_edges, 1)
        if n_edges >= n_bins - 1:
            break
    return last[:n_edges].copy()


def _roundest_between(low: float, high: float) -> float:
    """The number with the fewest digits in [low, high), nearest to the middle."""
    middle = low + (high - low) / 2.0
    for digits in range(1, 17):
        rounded = float(f"{middle:.{digits}g}")
        if low < rounded < high:
            return rounded
    return float(middle if low < middle < high else low)
