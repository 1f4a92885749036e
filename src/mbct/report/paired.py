"""Metrics before and after on the same resamples, so that their difference has an interval of its own."""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.evaluation.metrics.rows import Rows
from mbct.progress import progress
from mbct.validation import FloatArray

CONFIDENCE = 0.95
_ROWS_TO_DRAW = 20_000_000
_MOST_RESAMPLES = 200
_FEWEST_RESAMPLES = 50

Statistic = Callable[[Rows], float]


@dataclass(frozen=True)
class PairedEstimate:
    """A metric before and after, and its change, each with its basic bootstrap interval."""

    before: float
    after: float
    before_interval: tuple[float, float]
    after_interval: tuple[float, float]
    change_interval: tuple[float, float]

    @property
    def change(self) -> float:
        """After less before."""
        return self.after - self.before

    @property
    def known(self) -> bool:
        """Whether the metric exists on these rows."""
        return bool(np.isfinite(self.before) and np.isfinite(self.after))


def n_resamples(n_rows: int) -> int:
    """Resamples that a report can afford: 200 up to 100,000 rows, then fewer, never below 50."""
    return int(np.clip(_ROWS_TO_DRAW // n_rows, _FEWEST_RESAMPLES, _MOST_RESAMPLES))


def paired_estimates(
    before: Rows,
    after: Rows,
    statistics: Mapping[str, Statistic],
    *,
    blocks: npt.NDArray[np.integer] | None = None,
    seed: int = 0,
) -> dict[str, PairedEstimate]:
    """Every statistic of both predictions with 95 % intervals; the order of the rows does not matter.

    ``blocks`` numbers the rows that belong together, which are then drawn together.
    """
    keys = (before.y_true, *before.groups, before.weight, after.y_prob, before.y_prob)
    order = np.lexsort(keys)
    by_after = np.argsort(after.y_prob[order], kind="stable")
    rows = before.by_prediction(order), after.by_prediction(order[by_after])
    known = _values(*rows, statistics)
    times = n_resamples(len(before))
    block = np.arange(len(order)) if blocks is None else blocks[order]
    block_of = block, block[by_after]
    n_blocks = int(block.max()) + 1

    with progress("resampling", times) as advance, ThreadPoolExecutor(os.cpu_count()) as pool:

        def replicate(number: int) -> FloatArray:
            rng = np.random.default_rng([seed, number])
            drawn = np.bincount(rng.integers(n_blocks, size=n_blocks), minlength=n_blocks)
            old, new = (each.with_weight(each.weight * drawn[of]) for each, of in zip(rows, block_of, strict=True))
            found = _values(old, new, statistics)
            advance(1)
            return found

        replicates = np.stack(list(pool.map(replicate, range(times))))
    return {name: _estimate(known[:, i], replicates[:, :, i]) for i, name in enumerate(statistics)}


def _values(before: Rows, after: Rows, statistics: Mapping[str, Statistic]) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.array([[statistic(rows) for statistic in statistics.values()] for rows in (before, after)])


def _estimate(known: FloatArray, replicates: FloatArray) -> PairedEstimate:
    before, after = float(known[0]), float(known[1])
    with np.errstate(invalid="ignore"):
        change = replicates[:, 1] - replicates[:, 0]
    return PairedEstimate(
        before,
        after,
        _interval(before, replicates[:, 0], lowest=0.0),
        _interval(after, replicates[:, 1], lowest=0.0),
        _interval(after - before, change, lowest=-np.inf),
    )


def _interval(value: float, replicates: FloatArray, lowest: float) -> tuple[float, float]:
    """From 2·value − upper quantile to 2·value − lower quantile, over the replicates that exist."""
    usable = replicates[np.isfinite(replicates)]
    if not np.isfinite(value) or len(usable) < len(replicates) // 2:
        return float("nan"), float("nan")
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = np.quantile(usable, [tail, 1.0 - tail])
    return float(max(2.0 * value - high, lowest)), float(max(2.0 * value - low, lowest))
