"""Intervals by bootstrap and p-values by simulated labels: seeded, and the same for any order of the rows.

Where rows belong together (a day, a patient), whole blocks of rows are drawn, not single rows.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

from mbct.errors import ParameterError
from mbct.evaluation.metrics.results import Estimate, Interval
from mbct.evaluation.metrics.rows import OrderedRows, Rows, blocks_of_rows, check_confidence, check_count, read_rows
from mbct.progress import progress
from mbct.training.folds import BlockColumns, BlockSize
from mbct.validation import FloatArray

Statistic = Callable[[Rows], float]
Kind = TypeVar("Kind", bound=Estimate)
SIMULATED_NULL = "the predictions were right (labels drawn from them, {} times)"


class IntervalOptions(TypedDict, total=False):
    """Keywords of every metric that say how its interval is found; :mod:`mbct.metrics` describes them."""

    confidence: float | None
    n_bootstrap: int
    seed: int
    time: Any
    groups: Any
    block: BlockSize


class NullOptions(IntervalOptions, total=False):
    """The same, and ``n_null`` (default 0: none), the number of simulated data sets behind the p-value."""

    n_null: int


@dataclass(frozen=True)
class Resampling:
    """How an interval and a p-value are to be found; nothing is resampled where both are left out."""

    confidence: float | None = None
    n_bootstrap: int = 200
    n_null: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.confidence is not None:
            check_confidence(self.confidence)
        check_count("n_bootstrap", self.n_bootstrap)
        check_count("n_null", self.n_null, least=0)
        check_count("seed", self.seed, least=0)

    def estimate(
        self,
        rows: Rows,
        statistic: Statistic,
        kind: type[Kind],
        *,
        value: float | None = None,
        lowest: float = 0.0,
        highest: float = np.inf,
        **details: Any,
    ) -> Kind:
        """A result of ``kind``: the statistic of ``rows`` (or its known ``value``) and what was asked for beside it."""
        known = statistic(rows) if value is None else value
        if self.n_null > 0:
            details["p_value"], details["null"] = self.p_value(rows, statistic, known)
        return kind(known, self.interval(rows, statistic, known, lowest, highest), **details)

    def interval(
        self, rows: Rows, statistic: Statistic, value: float, lowest: float = 0.0, highest: float = np.inf
    ) -> Interval | None:
        """Basic bootstrap interval, held inside [lowest, highest]; None where no confidence was asked for."""
        if self.confidence is None:
            return None
        ordered = rows.in_one_order()
        replicates = self.replicates(ordered, lambda times: statistic(ordered.drawn(times)))
        return self.interval_of(value, replicates, lowest, highest)

    def replicates(self, rows: OrderedRows, measure: Callable[[npt.NDArray[np.intp]], Any]) -> FloatArray:
        """What ``measure`` makes of how often each row or block is drawn, one resample after the other."""
        n_blocks = len(rows) if rows.blocks is None else int(rows.blocks.max()) + 1

        def replicate(rng: np.random.Generator) -> Any:
            return measure(np.bincount(rng.integers(n_blocks, size=n_blocks), minlength=n_blocks))

        return self._repeat(replicate, self.n_bootstrap, stream=0)

    def interval_of(
        self, value: float, replicates: FloatArray, lowest: float = 0.0, highest: float = np.inf
    ) -> Interval:
        """Basic bootstrap interval of a value whose replicates are known."""
        confidence = check_confidence(self.confidence)
        finite = replicates[np.isfinite(replicates)]  # a resample may lack a positive, which some metrics need
        if not np.isfinite(value) or len(finite) == 0:
            return Interval(np.nan, np.nan, confidence, self.n_bootstrap)
        tail = (1.0 - confidence) / 2.0
        low, high = np.quantile(finite, [tail, 1.0 - tail])
        lower, upper = np.clip([2.0 * value - high, 2.0 * value - low], lowest, highest)
        return Interval(float(lower), float(upper), confidence, self.n_bootstrap)

    def p_value(self, rows: Rows, statistic: Statistic, value: float) -> tuple[float, str]:
        """Share of simulated data sets with at least ``value``, and the null it supposes.

        The labels of each are drawn from the predictions (Bröcker & Smith 2007); the data at hand count as one draw, so
        the p-value is never 0.
        """
        null = SIMULATED_NULL.format(self.n_null)
        if np.isnan(value):
            return np.nan, null
        ordered = rows.in_one_order()

        def draw(rng: np.random.Generator) -> float:
            return statistic(replace(ordered, y_true=(rng.random(len(ordered)) < ordered.y_prob).astype(np.float64)))

        simulated = self._repeat(draw, self.n_null, stream=1)
        reached = int(np.sum(simulated >= value * (1.0 - 1e-12)))
        return (1 + reached) / (1 + self.n_null), null

    def _repeat(self, one: Callable[[np.random.Generator], Any], times: int, stream: int) -> FloatArray:
        """``times`` runs, each with a generator of its own, so that threads do not matter."""
        generators = [np.random.default_rng([self.seed, stream, i]) for i in range(times)]
        found = []
        with ThreadPoolExecutor(os.cpu_count()) as pool, progress("resampling", times) as advance:
            for value in pool.map(one, generators):
                found.append(value)
                advance(1)
        return np.asarray(found, dtype=np.float64)


def prepare(
    y_true: Any,
    y_prob: Any,
    sample_weight: Any,
    options: IntervalOptions,
    groups: tuple[npt.NDArray[np.int64], ...] = (),
) -> tuple[Rows, Resampling]:
    """The rows that a metric looks at, and how it is resampled."""
    how: dict[str, Any] = {name: value for name, value in options.items() if name not in ("time", "groups", "block")}
    together = _block_columns(options)
    resampling = Resampling(**how)
    if together.given and resampling.n_null > 0:
        raise ParameterError(
            f"n_null={resampling.n_null} draws the labels of single rows, as if those of one block were independent: "
            "leave n_null out, or time and groups"
        )
    return read_rows(y_true, y_prob, sample_weight, groups, together), resampling


def number_rows(n_rows: int, options: IntervalOptions) -> tuple[npt.NDArray[np.int32] | None, bool]:
    """Block of each of ``n_rows`` rows, None where they stand alone, and whether blocks are in the order of time."""
    return blocks_of_rows(n_rows, _block_columns(options))


def _block_columns(options: IntervalOptions) -> BlockColumns:
    return BlockColumns(options.get("time"), options.get("groups"), options.get("block", "day"))
