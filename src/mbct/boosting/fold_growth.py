"""Fold ensembles side by side: each is grown on the other folds' rows, and its own rows judge when to stop."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from mbct.boosting.honest_options import HonestOptions
from mbct.cells.cells import Cells
from mbct.cells.group import CodeMatrix
from mbct.cells.thin import thin
from mbct.jit import kernel
from mbct.tree.honest_grower import frozen_tree, grow_tree, settle_rows
from mbct.tree.honest_histogram import gradients
from mbct.tree.masks import stops_of_rows
from mbct.tree.model import CalibrationTree, rounded
from mbct.validation import FloatArray

_LEAST_PROGRESS = 1e-8
"""Fall of the mean held-out loss that counts as progress."""
_SURE = 2.5
"""Standard errors that a held-out gain must exceed."""
_LATELY = 3
"""Rounds within which a loss that falls must have fallen."""


@dataclass(frozen=True)
class Parts:
    """Rows, or parts of cells, to boost on: codes, where their log-odds start, mass, positives and fold."""

    codes: CodeMatrix
    log_odds: FloatArray
    count: FloatArray
    label: FloatArray
    fold: npt.NDArray[np.uint8]
    offset: npt.NDArray[np.int64]
    ordered: npt.NDArray[np.bool_]
    usable: npt.NDArray[np.int64]


def parts_of(cells: Cells, ordered: tuple[bool, ...], usable: Sequence[int], n_folds: int, seed: int) -> Parts:
    """Spread cells over folds. A cell moves at the mean log-odds of its rows, which is exact for row-level cells.

    ``usable`` numbers the features that trees may split by.
    """
    thinned = thin(cells.sums, n_folds, seed)
    whole = len(thinned.cell) == len(cells)
    start = cells.sums.logit / cells.sums.count
    return Parts(
        cells.codes if whole else np.ascontiguousarray(cells.codes[thinned.cell]),
        start if whole else start[thinned.cell],
        thinned.count,
        thinned.label,
        thinned.fold,
        np.concatenate([[0], np.cumsum(cells.n_codes)]).astype(np.int64),
        np.array(ordered, dtype=np.bool_),
        np.array(usable, dtype=np.int64),
    )


class FoldGrower:
    """One fold's ensemble: grown on the other folds, judged on its own."""

    def __init__(self, parts: Parts, fold: int, max_leaves: int, options: HonestOptions):
        self.parts = parts
        self.options = options
        self.growth = options.growth(max_leaves, float(parts.count.sum()))
        self.grown_on = np.flatnonzero(parts.fold != fold).astype(np.int32)
        self.left_out = np.flatnonzero(parts.fold == fold).astype(np.int32)
        self.log_odds = parts.log_odds.copy()
        self.gradient = np.zeros((len(parts.count), 4), dtype=np.float32)
        self.rng = np.random.default_rng([options.seed, fold, max_leaves])
        self.trees: list[CalibrationTree] = []

    def grow(self) -> float:
        """Add a tree; returns the summed log loss of the rows left out."""
        parts, growth = self.parts, self.growth
        n_used = int(np.ceil(self.options.feature_share * len(parts.usable)))
        features = np.sort(self.rng.permutation(parts.usable)[:n_used])
        seed = self.rng.integers(0, 2**63, dtype=np.uint64)
        gradients(self.grown_on, self.log_odds, parts.count, parts.label, seed, True, self.gradient)
        tree = grow_tree(parts.codes, self.gradient, self.grown_on, parts.offset, parts.ordered, features, growth)
        step = rounded(tree.step * growth.rate)
        sums = settle_rows(tree, step, self.gradient, parts.count, parts.label, self.log_odds)
        self.trees.append(frozen_tree(tree, step, sums))
        stop = stops_of_rows(parts.codes, self.left_out, tree.feature, tree.table_start, tree.table, parts.offset)
        self.log_odds[self.left_out] += step[stop]
        return self.held_out_loss()

    def held_out_loss(self) -> float:
        """Summed log loss of the rows left out."""
        return _summed_log_loss(self.left_out, self.log_odds, self.parts.count, self.parts.label)


@kernel
def _summed_log_loss(rows: npt.NDArray[np.int32], log_odds: FloatArray, count: FloatArray, label: FloatArray) -> float:
    total = 0.0
    for i in rows:
        z = log_odds[i]
        total += count[i] * (max(z, 0.0) + np.log1p(np.exp(-abs(z)))) - label[i] * z
    return total


@dataclass(frozen=True)
class Gain:
    """Fall of the mean log loss on left-out rows, and its standard error."""

    value: float
    standard_error: float

    @property
    def trust(self) -> float:
        """How much of a correction to keep: 1 − 1/z² at z standard errors; nothing where chance gives as much."""
        if self.value <= _SURE * self.standard_error:
            return 0.0
        return 1.0 - (self.standard_error / self.value) ** 2


def held_out_gain(parts: Parts, before: FloatArray, after: FloatArray) -> Gain:
    """Mean fall of the log loss; the rows of a cell count one by one."""
    if_positive = np.logaddexp(0.0, -before) - np.logaddexp(0.0, -after)
    if_negative = np.logaddexp(0.0, before) - np.logaddexp(0.0, after)
    negatives = parts.count - parts.label
    mass = float(parts.count.sum())
    mean = float(np.sum(parts.label * if_positive + negatives * if_negative)) / mass
    square = float(np.sum(parts.label * if_positive**2 + negatives * if_negative**2)) / mass
    return Gain(mean, float(np.sqrt(max(square - mean * mean, 0.0) / mass)))


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
        """Add rounds until the loss has not fallen for ``patience`` of them, at most ``until``, or while not beaten."""
        last = self.options.max_trees if until is None else min(until, self.options.max_trees)
        while not self.stopped and self.n_rounds < last:
            loss = sum(pool.map(lambda fold: fold.grow(), self.folds)) / self.mass
            self.n_rounds += 1
            on_round(self.n_rounds)
            if loss < self.loss - _LEAST_PROGRESS:
                self.loss, self.n_trees = loss, self.n_rounds
                for fold in self.folds:
                    self.held_out[fold.left_out] = fold.log_odds[fold.left_out]
            late = self.n_rounds - self.n_trees >= self.options.patience
            self.stopped = late or self.n_rounds >= self.options.max_trees or beaten(self)


def best_size(
    of_size: Callable[[int], LockStep[FoldType]],
    options: HonestOptions,
    n_rows: float,
    n_threads: int,
    on_round: Callable[[int], None],
) -> tuple[LockStep[FoldType], list[LockStep[FoldType]]]:
    """The folds' ensembles of the tree size with the lowest held-out loss, and all that were tried.

    Smaller trees are tried where little is to be learnt, larger ones where much is.
    """
    with ThreadPoolExecutor(max(1, min(n_threads, options.n_folds))) as pool:
        tried: list[LockStep[FoldType]] = []
        for leaves in options.leaves:
            tried.append(of_size(leaves))
            tried[-1].run(pool, on_round, until=options.look_after(n_rows))
            if not tried[-1].still_falls:
                break
        *left, last = tried
        last.run(pool, on_round)
        if left and last.gain < options.much_more * left[-1].gain:
            left[-1].run(pool, on_round)
        if not left and last.n_trees <= options.short_ensemble:
            small = of_size(options.small_leaves)
            enough = 3 * last.n_trees + 20
            small.run(pool, on_round, beaten=lambda found: found.n_rounds > enough and found.loss > last.loss)
            tried.append(small)
    return min(tried, key=lambda found: found.loss), tried


def best_ensembles(
    parts: Parts, options: HonestOptions, n_threads: int, on_round: Callable[[int], None] = lambda _: None
) -> tuple[LockStep[FoldGrower], list[LockStep[FoldGrower]]]:
    """:func:`best_size` of ensembles grown on parts of cells."""
    mass = float(parts.count.sum())

    def of_size(leaves: int) -> LockStep[FoldGrower]:
        return LockStep([FoldGrower(parts, fold, leaves, options) for fold in range(options.n_folds)], mass, options)

    return best_size(of_size, options, mass, n_threads, on_round)
