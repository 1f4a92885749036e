"""Metrics before and after on the same resamples, so that their difference has an interval of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mbct.evaluation.metrics.resampling import Resampling
from mbct.evaluation.metrics.rows import Rows
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
    before: Rows, after: Rows, statistics: Mapping[str, Statistic], *, blocks: npt.NDArray[np.integer] | None = None
) -> dict[str, PairedEstimate]:
    """Every statistic of both predictions with 95 % intervals; the order of the rows does not matter.

    ``blocks`` numbers the rows that belong together, which are then drawn together.
    """
    order = np.lexsort((before.y_true, *before.groups, before.weight, after.y_prob, before.y_prob))
    number = np.argsort(order) if blocks is None else blocks
    before, after = (replace(rows, blocks=number.astype(np.int32)) for rows in (before, after))
    old, new = before.by_prediction(order), after.by_prediction(order[np.argsort(after.y_prob[order], kind="stable")])

    def measure(times: npt.NDArray[np.intp]) -> FloatArray:
        sides = old.drawn(times), new.drawn(times)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.array([[statistic(rows) for statistic in statistics.values()] for rows in sides])

    resampling = Resampling(CONFIDENCE, n_resamples(len(before)))
    known, replicates = measure(np.ones(int(number.max()) + 1, dtype=np.intp)), resampling.replicates(old, measure)

    def interval(value: float, found: FloatArray, lowest: float = 0.0) -> tuple[float, float]:
        ends = resampling.interval_of(value, found, lowest)
        enough = np.isfinite(found).sum() >= len(found) // 2
        return (ends.lower, ends.upper) if enough else (np.nan, np.nan)

    estimates = {}
    for i, name in enumerate(statistics):
        (was, now), (first, second) = known[:, i].tolist(), replicates[:, :, i].T
        with np.errstate(invalid="ignore"):
            change = second - first
        ends = interval(was, first), interval(now, second), interval(now - was, change, -np.inf)
        estimates[name] = PairedEstimate(was, now, *ends)
    return estimates
