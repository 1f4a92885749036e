"""Errors over the sorted predictions: ECE, ECE_sweep, smooth ECE, and ECCE, the range of the cumulated residuals."""

import math

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from mbct.jit import kernel
from mbct.stats.divisions import Bins, atoms_by_group, atoms_by_prediction, uniform_mass
from mbct.stats.partition_error import norm_of_errors, partition_error
from mbct.validation import FloatArray

_SLACK = 1e-9  # Label rates that fall by less than this count as equal: the noise of the interpolated sums


def ece_of_rows(
    y_prob: FloatArray, y_true: FloatArray, weight: FloatArray, n_bins: int = 15, norm: float = 1.0
) -> float:
    """ECE_n = ((1/N) Σ PCE(D_i)^p)^{1/p} over N uniform-mass bins of the sorted predictions, equation (ece_n).

    >>> p = np.array([0.1, 0.2, 0.7, 0.8])
    >>> ece_of_rows(p, np.array([0.0, 0.0, 1.0, 1.0]), np.ones(4), n_bins=2)
    0.2
    """
    return ece_of_atoms(atoms_by_prediction(y_prob, y_true, weight), n_bins, norm)


def ece_of_atoms(atoms: Bins, n_bins: int, norm: float) -> float:
    """:func:`ece_of_rows` where the rows are sorted and joined already."""
    return ece_of_bins(uniform_mass(atoms, n_bins), norm)


def ece_of_bins(bins: Bins, norm: float) -> float:
    """(Σ c_b·PCE(D_b)^p / Σ c_b)^{1/p}: the plain mean of the paper where the bins have equal mass."""
    return norm_of_errors(partition_error(bins), bins.count, norm)


def ece_sweep_of_rows(y_prob: FloatArray, y_true: FloatArray, weight: FloatArray, norm: float = 2.0) -> float:
    """ECE at the largest number of uniform-mass bins that keeps the bins' label rates in order.

    Roelofs et al. (2022): b* = max{b : ȳ₁ ≤ … ≤ ȳ_b', for every b' ≤ b}, at most one bin for each row.
    """
    atoms = atoms_by_prediction(y_prob, y_true, weight)
    return ece_of_atoms(atoms, sweep_bins(atoms), norm)


def sweep_bins(atoms: Bins) -> int:
    """b* of ECE_sweep, found by the linear sweep over prefix sums.

    Only bins that touch a stretch where the isotonic fit had to pool can be out of order, so only those are
    looked at: the sweep stays fast where predictions rank the labels almost perfectly.
    """
    edge, label, _ = atoms.cumulated
    start = atoms.pooled
    end = np.append(start[1:], len(atoms))
    pooled = end - start > 1
    spans = np.column_stack([edge[start[pooled]], edge[end[pooled]]])
    most = max(math.floor(edge[-1] + _SLACK), 1)
    return most if len(spans) == 0 else int(_sweep(edge, label, spans, most))


@kernel
def _sweep(edge: FloatArray, label: FloatArray, spans: FloatArray, most: int) -> int:
    for n_bins in range(2, most + 1):
        for s in range(len(spans)):
            if not _in_order(edge, label, n_bins, spans[s, 0], spans[s, 1]):
                return n_bins - 1
    return most


@kernel
def _in_order(edge: FloatArray, label: FloatArray, n_bins: int, low: float, high: float) -> bool:
    """Whether the label rates of the bins that touch [low, high], and of their neighbours, do not fall."""
    width = edge[-1] / n_bins
    first = max(int(low / width) - 1, 0)
    last = min(int(high / width) + 2, n_bins)
    before = _label_until(edge, label, first * width)
    rate = -1.0
    for j in range(first + 1, last + 1):
        until = _label_until(edge, label, j * width)
        new = (until - before) / width
        if new < rate - _SLACK:
            return False
        before, rate = until, new
    return True


@kernel
def _label_until(edge: FloatArray, label: FloatArray, weight: float) -> float:
    """Positives among the first ``weight`` of the rows, linear within an atom."""
    i = min(max(int(np.searchsorted(edge, weight)), 1), len(edge) - 1)
    share = min((weight - edge[i - 1]) / (edge[i] - edge[i - 1]), 1.0)
    return float(label[i - 1] + share * (label[i] - label[i - 1]))


_GRIDS = (2**11, 2**14)  # Cells of the coarse grid and of the fine one: widths below 1/16384 are not distinguished
_CELLS_PER_WIDTH = 64
"""Where the coarse grid has so many cells in a kernel width, the fine one changes the error by less than 1e-4 of it."""
_POINTS_PER_WIDTH = 32
"""Points in each kernel width at which the smoothed residuals are looked at; more change the error as little."""
_LIKELY = 1.0 / 64.0  # Most errors are larger, and the search is faster from here up than from the narrowest kernel
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


_TERMS = np.arange(1, 41)
_SERIES_MEET = 1.5  # Below this the theta-transformed series converges faster, above it the alternating one


def cumulative_error(atoms: Bins) -> float:
    """ECCE = max_k C_k − min_k C_k, C_k = (1/n) Σ_{i≤k}(y_i − p_i) over the sorted predictions, C_0 = 0.

    It is the largest |Σ(y − p)|/n over all intervals of predictions.

    >>> cumulative_error(Bins(np.ones(4), np.array([1.0, 0.0, 0.0, 1.0]), np.full(4, 0.5)))
    0.25
    """
    count, label, pred = atoms.cumulated
    return float(np.ptp(label - pred) / count[-1])


def cumulative_scale(y_prob: FloatArray, weight: FloatArray) -> float:
    """σ = √(Σ w²·p(1 − p)) / Σw: the standard deviation of C_n where the predictions are right."""
    return math.sqrt(float(np.sum(weight * weight * y_prob * (1.0 - y_prob)))) / float(weight.sum())


def cumulative_error_by_group(
    y_prob: FloatArray, y_true: FloatArray, weight: FloatArray, group: npt.NDArray[np.int64], n_groups: int
) -> tuple[FloatArray, FloatArray]:
    """ECCE and σ within each group; both 0 for an empty one."""
    of_group, atoms = atoms_by_group(y_prob, y_true, weight, group)
    total = np.bincount(group, weight, n_groups)
    size = np.where(total > 0, total, 1.0)
    path = np.cumsum(atoms.label - atoms.pred)
    start = np.flatnonzero(np.concatenate([[True], of_group[1:] != of_group[:-1]]))
    before = np.concatenate([[0.0], path[start[1:] - 1]])
    error = np.zeros(n_groups)
    reached = np.maximum(np.maximum.reduceat(path, start), before) - np.minimum(
        np.minimum.reduceat(path, start), before
    )
    error[of_group[start]] = reached
    variance = np.bincount(group, weight * weight * y_prob * (1.0 - y_prob), n_groups)
    return error / size, np.sqrt(variance) / size


def in_sigmas(error: float, sigma: float) -> float:
    """The error over σ; infinite where predictions of 0 and 1 leave no room for chance, and yet there is an error."""
    if sigma > 0.0:
        return error / sigma
    return 0.0 if error == 0.0 else math.inf


def brownian_range_tail(scaled: float) -> float:
    """P(R ≥ x) for the range R of Brownian motion on [0, 1]: the null distribution of ECCE / σ (Feller 1951).

    >>> round(brownian_range_tail(2.241), 3)
    0.1
    """
    if scaled <= 0.0:
        return 1.0
    if scaled > _SERIES_MEET:
        signs = np.where(_TERMS % 2 == 1, 1.0, -1.0)
        return float(np.clip(8.0 * np.sum(signs * _TERMS * ndtr(-_TERMS * scaled)), 0.0, 1.0))
    odd = (_TERMS - 0.5) * math.pi
    below = np.sum((8.0 / scaled**2 + 2.0 / odd**2) * np.exp(-2.0 * odd**2 / scaled**2))
    return float(np.clip(1.0 - below, 0.0, 1.0))
