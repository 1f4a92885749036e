"""Fold ensembles side by side: each is grown on the other folds' rows, and its own rows judge when to stop."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from mbct.model.masks import stops_of_rows
from mbct.model.tree import CalibrationTree, rounded
from mbct.training.binned_rows import Parts, held_out_gain
from mbct.training.grower import HonestGrowth, frozen_tree, grow_honest, settle_rows
from mbct.training.histogram import gradients
from mbct.training.logit_recalibration import fit_line
from mbct.training.offsets import Effects
from mbct.training.options import HonestOptions
from mbct.training.value_offsets import fit_effects
from mbct.validation import FloatArray

_LEAST_PROGRESS = 1e-8
"""Fall of the mean held-out loss that counts as progress."""
_CLEARLY = 3.0
"""Standard errors by which effects of single values must be ahead of trees, which need fewer assumptions."""
_LATELY = 3
"""Rounds within which a loss that falls must have fallen."""


class FoldGrower:
    """One fold's ensemble: grown on the other folds, judged on its own."""

    def __init__(self, parts: Parts, fold: int, growth: HonestGrowth, options: HonestOptions, start: FloatArray):
        self.parts = parts
        self.options = options
        self.growth = growth
        self.grown_on = parts.rows_but(fold)
        self.left_out = parts.rows_of(fold)
        self.log_odds = start.copy()
        self.gradient = np.zeros((len(parts.count), 4), dtype=np.float32)
        self.rng = np.random.default_rng([options.seed, fold, growth.max_leaves])
        self.trees: list[CalibrationTree] = []

    def grow(self) -> float:
        """Add a tree; returns the summed log loss of the rows left out."""
        parts, growth = self.parts, self.growth
        n_used = int(np.ceil(self.options.feature_share * len(parts.usable)))
        features = np.sort(self.rng.permutation(parts.usable)[:n_used])
        seed = self.rng.integers(0, 2**63, dtype=np.uint64)
        gradients(
            self.grown_on, self.log_odds, parts.count, parts.label, seed, growth.honest, parts.whole, self.gradient
        )
        tree = grow_honest(parts.codes, self.gradient, self.grown_on, parts.offset, parts.ordered, features, growth)
        step = rounded(tree.step * growth.rate)
        sums = settle_rows(tree, step, self.gradient, parts.count, parts.label, self.log_odds)
        self.trees.append(frozen_tree(tree, step, sums))
        stop = stops_of_rows(parts.codes, self.left_out, tree.feature, tree.table_start, tree.table, parts.offset)
        self.log_odds[self.left_out] += step[stop]
        return self.held_out_loss()

    def held_out_loss(self) -> float:
        """Summed log loss of the rows left out."""
        return self.parts.loss(self.left_out, self.log_odds)


class Fold(Protocol):
    """What lock-step growth asks of one fold's ensemble; its log-odds are one column, or one for each class."""

    left_out: npt.NDArray[Any]
    log_odds: FloatArray

    def grow(self) -> float:
        """Add a round of trees; returns the summed log loss of the rows left out."""
        ...

    def held_out_loss(self) -> float:
        """Summed log loss of the rows left out."""
        ...


FoldType = TypeVar("FoldType", bound=Fold)


class LockStep(Generic[FoldType]):
    """All folds' ensembles of one tree size, grown round by round until the pooled held-out loss stops falling."""

    def __init__(self, folds: Sequence[FoldType], mass: float, options: HonestOptions):
        self.options = options
        self.folds = folds
        self.mass = mass
        self.held_out = folds[0].log_odds.copy()
        self._remember()
        self.base = sum(fold.held_out_loss() for fold in folds) / mass
        self.loss, self.n_trees, self.n_rounds = self.base, 0, 0
        self.stopped = False

    @property
    def gain(self) -> float:
        """Fall of the mean held-out loss at the best number of trees."""
        return self.base - self.loss

    @property
    def still_falls(self) -> bool:
        """Whether one of the last rounds was the best."""
        return not self.stopped and self.n_rounds - self.n_trees < _LATELY

    def run(
        self,
        pool: Executor,
        on_round: Callable[[int], None],
        until: int | None = None,
        beaten: Callable[["LockStep[FoldType]"], bool] = lambda _: False,
    ) -> None:
        """Add rounds until the loss has not fallen for a while, at most ``until``, or while not beaten."""
        last = self.options.max_trees if until is None else min(until, self.options.max_trees)
        while not self.stopped and self.n_rounds < last:
            loss = sum(pool.map(lambda fold: fold.grow(), self.folds)) / self.mass
            self.n_rounds += 1
            on_round(self.n_rounds)
            if loss < self.loss - _LEAST_PROGRESS:
                self.loss, self.n_trees = loss, self.n_rounds
                self._remember()
            late = self.n_rounds - self.n_trees >= self.options.patience_for(self.mass)
            self.stopped = late or self.n_rounds >= self.options.max_trees or beaten(self)

    def _remember(self) -> None:
        """Keep where every fold's left-out rows stand."""
        for fold in self.folds:
            self.held_out[fold.left_out] = fold.log_odds[fold.left_out]


def fold_pool(n_threads: int, n_folds: int) -> ThreadPoolExecutor:
    """Threads for the folds."""
    return ThreadPoolExecutor(max(1, min(n_threads, n_folds)))


def best_size(
    first: LockStep[FoldType],
    of_size: Callable[[int], LockStep[FoldType]],
    options: HonestOptions,
    n_rows: float,
    pool: Executor,
    on_round: Callable[[int], None],
) -> tuple[LockStep[FoldType], list[LockStep[FoldType]]]:
    """The folds' ensembles of the tree size with the lowest held-out loss, and all that were tried.

    ``first`` has trees of the first size and may have been begun already. Smaller trees are tried where little is to be
    learnt, larger ones where much is.
    """
    look = options.look_after(n_rows)
    tried = [first]
    first.run(pool, on_round, until=look)
    chosen = first
    for leaves in options.leaves[1:]:
        if not chosen.still_falls:
            break
        tried.append(of_size(leaves))
        tried[-1].run(pool, on_round, until=look)
        if tried[-1].gain < options.much_more * chosen.gain:
            break
        chosen = tried[-1]
    chosen.run(pool, on_round)
    if len(tried) == 1 and chosen.n_trees <= options.short_ensemble:
        small = of_size(options.small_leaves)
        small.run(pool, on_round, beaten=_hopeless(chosen))
        tried.append(small)
    return min(tried, key=lambda found: found.loss), tried


@dataclass(frozen=True)
class Ensembles:
    """The folds' ensembles with the lowest held-out loss, all that were tried, and what they start from.

    That is a line, or a line and effects, or nothing; ``base`` is the loss before it.
    """

    best: LockStep[FoldGrower]
    tried: list[LockStep[FoldGrower]]
    start: Effects | None
    base: float


def best_ensembles(
    parts: Parts, options: HonestOptions, n_threads: int, on_round: Callable[[int], None] = lambda _: None
) -> Ensembles:
    """:func:`best_size` of ensembles grown on parts of cells.

    They start from a line in the log-odds where rows left out gain by it, and from effects of single values where those
    are clearly ahead of the first trees.
    """
    mass = float(parts.count.sum())
    unmoved = (parts.log_odds,) * options.n_folds

    def of_size(leaves: int, start: Effects | None, *, honest: bool = True) -> LockStep[FoldGrower]:
        growth = options.growth(leaves, mass, honest=honest)
        log_odds = unmoved if start is None else start.log_odds
        return LockStep([FoldGrower(parts, k, growth, options, z) for k, z in enumerate(log_odds)], mass, options)

    with fold_pool(n_threads, options.n_folds) as pool:
        start = fit_line(parts, options.n_folds, pool)
        effects = fit_effects(parts, options.n_folds, pool)
        first = of_size(options.leaves[0], start)
        left: list[LockStep[FoldGrower]] = []
        if effects is not None:
            # The line of a score that misses effects is flatter than the one beside them, so it is fitted anew.
            effects = fit_line(parts, options.n_folds, pool, effects) or effects
            first.run(pool, on_round, until=options.look_after(mass))
            ahead = held_out_gain(parts, first.held_out, effects.held_out(parts))
            if ahead.value > _CLEARLY * ahead.standard_error:
                left, start = [first], effects
                first = of_size(options.leaves[0], start)
        best, tried = best_size(first, lambda leaves: of_size(leaves, start), options, mass, pool, on_round)
        if best.n_trees and mass <= options.small_data:
            other = of_size(best.folds[0].growth.max_leaves, start, honest=False)
            other.run(pool, on_round, beaten=_hopeless(best))
            tried.append(other)
            best = min(best, other, key=lambda found: found.loss)
    return Ensembles(best, left + tried, start, parts.loss(parts.all_rows, parts.log_odds) / mass)


def _hopeless(best: LockStep[FoldType]) -> Callable[[LockStep[FoldType]], bool]:
    """Whether an attempt has had three times as many rounds as the best one and is still behind it."""
    return lambda found: found.n_rounds > 3 * best.n_trees + 20 and found.loss > best.loss
