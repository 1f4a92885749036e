"""MVCE by Monte Carlo: the error of random divisions, one shuffled view after another.

A view shuffles the rows and cuts them into bins of equal mass; a row that lies across a cut counts on both sides in
proportion. Every view has a generator of its own and the rows are put in one order first, so neither threads nor the
order of the rows matter.
"""

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.stats.random_stream import mix, next_state
from mbct.validation import FloatArray

_SMALL = 200_000  # Below so many draws in all, threads cost more than they save
_PARTS_PER_THREAD = 8


@dataclass(frozen=True)
class MultiViewError:
    """MVCE over ``n_views`` shuffled views, with the standard error that the choice of views leaves."""

    value: float
    standard_error: float
    n_views: int
    n_bins: int

    def __float__(self) -> float:
        return self.value


def monte_carlo_mvce(
    y_prob: FloatArray,
    y_true: FloatArray,
    weight: FloatArray,
    *,
    bin_size: float | None = None,
    n_bins: int | None = None,
    n_views: int = 100,
    norm: float = 2.0,
    seed: int = 0,
    n_threads: int | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> MultiViewError:
    """MVCE = ((1/r) Σ_i ((1/t_i) Σ_j PCE(D_ij))^p)^{1/p} over r shuffled uniform-mass views, equation (mvce).

    Give ``bin_size`` (weight of a bin: t = ⌊n / bin_size⌋, at least 1) or ``n_bins``. A row of weight 2.5 counts as two
    copies, which a shuffle spreads, and one half row. ``advance`` hears of views as they are done.

    >>> p, y = np.full(1000, 0.5), np.tile([0.0, 1.0], 500)
    >>> result = monte_carlo_mvce(p, y, np.ones(1000), bin_size=100)
    >>> abs(result.value - 0.0381) < 0.002, result.n_bins
    (True, 10)
    """
    total = float(weight.sum())
    bins = n_bins if n_bins is not None else bins_of_size(total, bin_size if bin_size is not None else total)
    view_errors = shuffled_view_errors(y_prob - y_true, weight, bins, n_views, seed, n_threads, advance)
    value, standard_error = norm_over_views(view_errors, norm)
    return MultiViewError(value, standard_error, n_views, bins)


def bins_of_size(total: float, bin_size: float) -> int:
    """Number of bins of about ``bin_size`` in a weight of ``total``, as in the closed form."""
    return max(math.floor(total / bin_size + 1e-9), 1)


def norm_over_views(view_errors: FloatArray, norm: float) -> tuple[float, float]:
    """The p-norm mean over views and its standard error (delta method; not a number for a single view)."""
    if not view_errors.any():
        return 0.0, 0.0
    powers = view_errors**norm
    mean = float(powers.mean())
    value = float(mean ** (1.0 / norm))
    if len(powers) == 1:
        return value, math.nan
    return value, float(value / (norm * mean) * powers.std(ddof=1) / math.sqrt(len(powers)))


def shuffled_view_errors(
    residual: FloatArray,
    weight: FloatArray,
    n_bins: int,
    n_views: int,
    seed: int,
    n_threads: int | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> FloatArray:
    """(1/t) Σ_j PCE(D_ij) of each of ``n_views`` shuffled views, in the order of their generators."""
    values, weights = _atoms(residual, weight)
    seeds = np.random.SeedSequence(seed).generate_state(n_views, np.uint64).astype(np.uint64)
    threads = n_threads or os.cpu_count() or 1

    def errors_of(part: npt.NDArray[np.uint64]) -> FloatArray:
        work = np.empty(len(values))
        return np.asarray([_view_error(values, weights, n_bins, view_seed, work) for view_seed in part])

    if threads == 1 or len(values) * n_views < _SMALL:
        return errors_of(seeds)
    done = []
    with ThreadPoolExecutor(threads) as pool:
        for part in pool.map(errors_of, np.array_split(seeds, min(n_views, threads * _PARTS_PER_THREAD))):
            done.append(part)
            advance(len(part))
    return np.concatenate(done)


def _atoms(residual: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What is shuffled, in one order: whole copies and, after them, remainders below one.

    The weights are left empty where all are one.
    """
    if (weight == 1.0).all():
        return np.sort(residual), np.empty(0)
    order = np.lexsort((weight, residual))
    residual, weight = residual[order], weight[order]
    whole = np.floor(weight)
    copies = np.repeat(residual, whole.astype(np.int64))
    left = weight > whole
    if not left.any():
        return copies, np.empty(0)
    weights = np.concatenate([np.ones(len(copies)), (weight - whole)[left]])
    return np.concatenate([copies, residual[left]]), weights


@kernel
def _view_error(values: FloatArray, weights: FloatArray, n_bins: int, seed: np.uint64, work: FloatArray) -> float:
    """Mean |residual| of the bins of one shuffled view; ``work`` is overwritten."""
    if len(weights) == 0:
        work[:] = values
    else:
        work[:] = np.arange(len(values))
    _shuffle(work, seed)
    total = float(len(values)) if len(weights) == 0 else weights.sum()
    bin_weight = total / n_bins
    room, inside, closed = bin_weight, 0.0, 0.0
    for i in range(len(work)):
        if len(weights) == 0:
            value, amount = work[i], 1.0
        else:
            atom = int(work[i])
            value, amount = values[atom], weights[atom]
        while amount > room:  # the atom lies across a cut: part of it closes the bin
            closed += abs(inside + room * value)
            amount -= room
            room, inside = bin_weight, 0.0
        inside += amount * value
        room -= amount
    return float(closed + abs(inside)) / total


@kernel
def _shuffle(work: FloatArray, seed: np.uint64) -> None:
    """Fisher and Yates; the index takes the high half of each word, whose bias is below n/2³²."""
    state = seed
    for i in range(len(work) - 1, 0, -1):
        state = next_state(state)
        j = np.int64(((mix(state) >> np.uint64(32)) * np.uint64(i + 1)) >> np.uint64(32))
        work[i], work[j] = work[j], work[i]


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
