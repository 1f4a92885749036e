"""Smooth ECE (Błasiok & Nakkiran 2023): no bins, but a kernel whose width is the error itself.

smECE_σ = ∫₀¹ |(1/n) Σ_i (p_i − y_i)·K_σ(t, p_i)| dt with K_σ the Gaussian kernel reflected at 0 and 1; it falls as σ
grows, and smECE is its fixed point smECE_σ = σ. The reflected kernel is the heat kernel of the interval: on a grid it
is a cosine transform, whose k-th term is damped by exp(−σ²π²k²/2).
"""

import numpy as np

from mbct.stats.divisions import Bins
from mbct.validation import FloatArray

_CELLS = 2**14
"""Cells of the grid: widths below 1/16384 are not told apart."""
_TOLERANCE = 1e-9


def smooth_error(atoms: Bins) -> float:
    """The fixed point smECE_σ = σ, by false position with halving (Illinois): smECE_σ − σ falls, almost in a line."""
    spectrum = residual_spectrum(atoms)
    low, high = 1.0 / _CELLS, 1.0
    above, below = smooth_error_at(spectrum, low) - low, smooth_error_at(spectrum, high) - high
    if above <= 0.0:
        return above + low
    width, moved_low = high, False
    while high - low > _TOLERANCE:
        width = (low * below - high * above) / (below - above)
        excess = smooth_error_at(spectrum, width) - width
        if abs(excess) < _TOLERANCE:
            break
        if excess > 0.0:
            below = below / 2.0 if moved_low else below
            low, above, moved_low = width, excess, True
        else:
            above = above if moved_low else above / 2.0
            high, below, moved_low = width, excess, False
    return smooth_error_at(spectrum, width)


def smooth_error_at(spectrum: FloatArray, width: float) -> float:
    """smECE_σ from the cosine transform of the residuals."""
    frequency = np.arange(_CELLS + 1)
    damped = spectrum * np.exp(-0.5 * (width * np.pi * frequency) ** 2)
    smoothed = np.abs(np.fft.irfft(damped, 2 * _CELLS)[: _CELLS + 1])
    return float(smoothed.sum() - (smoothed[0] + smoothed[-1]) / 2.0)


def residual_spectrum(atoms: Bins) -> FloatArray:
    """Cosine transform (type I) of the mean residual, shared out linearly to the two nearest grid points.

    An inner point carries half of its residual here, as its mirror image carries the other half.
    """
    place = atoms.pred / atoms.count * _CELLS
    cell = np.minimum(place.astype(np.int64), _CELLS - 1)
    share = place - cell
    residual = (atoms.pred - atoms.label) / atoms.count.sum()
    grid = np.bincount(cell, residual * (1.0 - share), _CELLS + 1) + np.bincount(cell + 1, residual * share, _CELLS + 1)
    grid[0], grid[-1] = 2.0 * grid[0], 2.0 * grid[-1]
    return np.asarray(np.fft.rfft(np.concatenate([grid, grid[-2:0:-1]])).real, dtype=np.float64)
