"""MVCE over shuffled views without shuffling: its limit for many views, from n, Σd and Σd² alone.

A shuffled view of bin size m draws its bins without replacement, so a bin's mean residual has
expectation b (the global bias) and variance s² = S²/m·(1 − m/n), S² the sample variance of the residuals.
The mean of |PCE| is then that of a folded normal.
"""

import math
from typing import Any

import numpy as np

from mbct.jit import kernel
from mbct.validation import FloatArray

_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
_SQRT_2 = math.sqrt(2.0)


@kernel
def mvce_of_sums(n: float, residual: float, squared: float, bin_size: float, norm: float) -> float:
    """Scalar form of :func:`closed_form_mvce`, for the split search."""
    if n <= 0.0:
        return 0.0
    n_bins = max(math.floor(n / bin_size + 1e-9), 1.0)
    size = n / n_bins
    bias = abs(residual / n)
    spread = max(squared - residual * residual / n, 0.0) / max(n - 1.0, 1.0)
    variance = spread / size * (1.0 - size / n)
    if variance <= 0.0:
        return bias
    s = math.sqrt(variance)
    mean = s * _SQRT_2_OVER_PI * math.exp(-bias * bias / (2.0 * variance)) + bias * math.erf(bias / (s * _SQRT_2))
    if norm == 1.0:
        return mean
    view_variance = max(bias * bias + variance - mean * mean, 0.0) / n_bins
    return math.sqrt(mean * mean + view_variance)


@kernel
def _mvce_of_arrays(
    count: FloatArray, residual: FloatArray, squared: FloatArray, bin_size: float, norm: float
) -> FloatArray:
    out = np.empty(len(count))
    for i in range(len(count)):
        out[i] = mvce_of_sums(count[i], residual[i], squared[i], bin_size, norm)
    return out


def closed_form_mvce(
    count: Any, residual: Any, squared_residual: Any, bin_size: float, norm: float = 2.0
) -> FloatArray:
    """MVCE (equation mvce) over infinitely many shuffled views of uniform-mass bins.

    E|Z| = s·√(2/π)·exp(−b²/2s²) + |b|·erf(|b|/(s√2)); for p = 2, MVCE² = E|Z|² + (b² + s² − E|Z|²)/t
    with t bins in a view. Norms other than 1 and 2 are not covered.

    >>> float(closed_form_mvce(1000.0, 0.0, 90.0, bin_size=100.0).round(6))
    0.023359
    """
    n, d, d2 = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (count, residual, squared_residual)))
    flat = _mvce_of_arrays(n.ravel(), d.ravel(), d2.ravel(), float(bin_size), float(norm))
    return flat.reshape(n.shape)
