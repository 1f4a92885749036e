"""MVCE by Monte Carlo: the error of random divisions, one shuffled view after another.

A view shuffles the rows and cuts them into bins of equal mass; all that matters of it is which rows share a bin.
So no row is moved: each row in turn draws its bin with probability proportional to the room left there, which has
the law of a shuffle, reads the data in order and keeps only the bins in the processor's cache. Every view has a
generator of its own and the rows are put in one order first, so neither threads nor the order of the rows matter.
"""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.stats.random_stream import mixed, next_state
from mbct.validation import FloatArray

_FULL = 1e-9
"""A bin with less than this share of its room left is full: what remains is rounding."""
_REFRESH = 0.75
"""Full bins are dropped, and the most roomy one looked up, each time the room left has shrunk by this factor."""


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
) -> MultiViewError:
    """MVCE = ((1/r) Σ_i ((1/t_i) Σ_j PCE(D_ij))^p)^{1/p} over r shuffled uniform-mass views, equation (mvce).

    Give ``bin_size`` (mass of a bin: t = ⌊n / bin_size⌋, at least 1) or ``n_bins``. A row of weight 2.5 counts as two
    copies, which a shuffle spreads, and one half row.

    >>> import numpy as np
    >>> p, y = np.full(1000, 0.5), np.tile([0.0, 1.0], 500)
    >>> result = monte_carlo_mvce(p, y, np.ones(1000), bin_size=100)
    >>> abs(result.value - 0.0381) < 0.002, result.n_bins
    (True, 10)
    """
    total = float(weight.sum())
    bins = n_bins if n_bins is not None else bins_of_size(total, bin_size if bin_size is not None else total)
    view_errors = shuffled_view_errors(y_prob - y_true, weight, bins, n_views, seed, n_threads)
    value, standard_error = norm_over_views(view_errors, norm)
    return MultiViewError(value, standard_error, n_views, bins)


def bins_of_size(total: float, bin_size: float) -> int:
    """Number of bins of about ``bin_size`` in a mass of ``total``, as in the closed form."""
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
    residual: FloatArray, weight: FloatArray, n_bins: int, n_views: int, seed: int, n_threads: int | None = None
) -> FloatArray:
    """(1/t) Σ_j PCE(D_ij) of each of ``n_views`` shuffled views, in the order of their generators."""
    residual, copies, remainder = _in_one_order(residual, weight)
    seeds = np.random.SeedSequence(seed).generate_state(n_views, np.uint64)
    threads = min(n_threads or os.cpu_count() or 1, n_views)

    def errors_of(part: npt.NDArray[np.uint64]) -> FloatArray:
        return np.asarray([_view_error(residual, copies, remainder, n_bins, view_seed) for view_seed in part])

    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate(list(pool.map(errors_of, np.array_split(seeds, threads))))


def _in_one_order(residual: FloatArray, weight: FloatArray) -> tuple[FloatArray, npt.NDArray[np.int64], FloatArray]:
    """Rows sorted by residual; weights as whole copies and a remainder below one (empty if there is none)."""
    if (weight == 1.0).all():
        return np.sort(residual), np.empty(0, dtype=np.int64), np.empty(0)
    order = np.lexsort((weight, residual))
    residual, weight = residual[order], weight[order]
    copies = np.floor(weight)
    remainder = weight - copies
    return residual, copies.astype(np.int64), remainder if remainder.any() else np.empty(0)


@kernel
def _view_error(
    residual: FloatArray, copies: npt.NDArray[np.int64], remainder: FloatArray, n_bins: int, seed: np.uint64
) -> float:
    """Mean |residual| of the bins of one random division into ``n_bins`` bins of equal mass."""
    total = float(len(residual)) if len(copies) == 0 else float(copies.sum()) + remainder.sum()
    mass = total / n_bins
    room = np.full(n_bins, mass)
    sums = np.zeros(n_bins)
    done = 0.0
    n_open = n_bins
    most_room = mass
    left = total
    refresh_at = total * _REFRESH
    state = seed
    for i in range(len(residual)):
        value = residual[i]
        whole = 1 if len(copies) == 0 else int(copies[i])
        for c in range(whole + (1 if len(remainder) > 0 else 0)):
            amount = 1.0 if c < whole else remainder[i]
            while amount > 0.0 and n_open > 0:
                state = next_state(state)
                bits = mixed(state)
                j = np.int64(((bits >> np.uint64(32)) * np.uint64(n_open)) >> np.uint64(32))
                if np.float64(bits & np.uint64(0xFFFFFFFF)) * 2.0**-32 * most_room >= room[j]:
                    continue
                part = min(amount, room[j])
                sums[j] += part * value
                room[j] -= part
                left -= part
                amount -= part
                if left <= refresh_at:
                    n_open, most_room, closed = _drop_full(room, sums, n_open, mass)
                    done += closed
                    refresh_at = left * _REFRESH
    return float(done + np.abs(sums[:n_open]).sum()) / total


@kernel
def _drop_full(room: FloatArray, sums: FloatArray, n_open: int, mass: float) -> tuple[int, float, float]:
    """Move the bins with room to the front; their number, the most room, and Σ|residual| of the bins dropped."""
    kept = 0
    most_room = 0.0
    closed = 0.0
    for j in range(n_open):
        if room[j] > _FULL * mass:
            room[kept] = room[j]
            sums[kept] = sums[j]
            most_room = max(most_room, room[j])
            kept += 1
        else:
            closed += abs(sums[j])
    return kept, most_room, closed
