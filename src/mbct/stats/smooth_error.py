"""Smooth ECE (Błasiok & Nakkiran 2023): no bins, but a kernel whose width is the error itself.

smECE_σ = ∫₀¹ |(1/n) Σ_i (p_i − y_i)·K_σ(t, p_i)| dt with K_σ the Gaussian kernel reflected at 0 and 1; it falls as σ
grows, and smECE is its fixed point smECE_σ = σ. The reflected kernel is the heat kernel of the interval: on a grid it
is a cosine transform, whose k-th term is damped by exp(−σ²π²k²/2).
"""

import math

import numpy as np

from mbct.stats.divisions import Bins
from mbct.validation import FloatArray

_GRIDS = (2**11, 2**14)
"""Cells of the coarse grid and of the fine one: widths below 1/16384 are not told apart."""
_CELLS_PER_WIDTH = 64
"""Where the coarse grid has so many cells in a kernel width, the fine one changes the error by less than 1e-4 of it."""
_POINTS_PER_WIDTH = 32
"""Points in each kernel width at which the smoothed residuals are looked at; more change the error as little."""
_LIKELY = 1.0 / 64.0
"""Most errors are larger, and the search is faster from here up than from the narrowest kernel."""
_TOLERANCE = 1e-9


def smooth_error(atoms: Bins) -> float:
    """The fixed point smECE_σ = σ, on the coarse grid where its cells are narrow beside σ, else on the fine one."""
    coarse, fine = _GRIDS
    if len(atoms) <= coarse:  # few rows, whose noise alone makes the error large beside the cells
        error = _fixed_point(residual_spectrum(atoms, coarse))
        if error * coarse >= _CELLS_PER_WIDTH:
            return error
    return _fixed_point(residual_spectrum(atoms, fine))


def _fixed_point(spectrum: FloatArray) -> float:
    """By false position with halving (Illinois): smECE_σ − σ falls, almost in a line."""
    low, high, narrowest = _LIKELY, 1.0, 1.0 / (len(spectrum) - 1)
    above, below = smooth_error_at(spectrum, low) - low, smooth_error_at(spectrum, high) - high
    while above <= 0.0 and low > narrowest:
        low, high, below = max(low / 4.0, narrowest), low, above
        above = smooth_error_at(spectrum, low) - low
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
    """smECE_σ from the cosine transform of the residuals; a wide kernel leaves few terms and needs few points."""
    cells = min(2 ** math.ceil(math.log2(max(_POINTS_PER_WIDTH / width, 512.0))), len(spectrum) - 1)
    damped = spectrum[: cells + 1] * np.exp(-0.5 * (width * np.pi * np.arange(cells + 1)) ** 2)
    smoothed = np.fft.irfft(damped, 2 * cells)[: cells + 1]
    size, turns = np.abs(smoothed), smoothed[:-1] * smoothed[1:] < 0.0
    area = 0.5 * (size[:-1] + size[1:])
    # Where the line from point to point crosses 0, two triangles: (a² + b²) / 2(|a| + |b|).
    area[turns] = (smoothed[:-1] ** 2 + smoothed[1:] ** 2)[turns] / (4.0 * area[turns])
    return float(area.sum())


def residual_spectrum(atoms: Bins, cells: int = _GRIDS[-1]) -> FloatArray:
    """Cosine transform (type I) of the mean residual, shared out linearly to the two nearest grid points.

    An inner point carries half of its residual here, as its mirror image carries the other half.
    """
    place = atoms.pred / atoms.count * cells
    cell = np.minimum(place.astype(np.int64), cells - 1)
    share = place - cell
    residual = (atoms.pred - atoms.label) / atoms.count.sum()
    grid = np.bincount(cell, residual * (1.0 - share), cells + 1) + np.bincount(cell + 1, residual * share, cells + 1)
    grid[0], grid[-1] = 2.0 * grid[0], 2.0 * grid[-1]
    return np.asarray(np.fft.rfft(np.concatenate([grid, grid[-2:0:-1]])).real, dtype=np.float64)
