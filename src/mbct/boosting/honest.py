"""Honest boosting: one ensemble for each fold, grown side by side; rows left out decide how many trees there are.

The model is the mean of the fold ensembles in log-odds, shrunk by how sure the gain on left-out rows is: where nothing
is to be gained it is the identity.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mbct.boosting.trace import FitTrace, RoundRecord
from mbct.cells.cells import Cells
from mbct.cells.group import CodeMatrix
from mbct.cells.thin import thin
from mbct.errors import ParameterError
from mbct.jit import kernel
from mbct.stats.logodds import sigmoid
from mbct.tree.honest_grower import HonestGrowth, frozen_tree, grow_honest, settle_rows
from mbct.tree.honest_histogram import gradients
from mbct.tree.model import CalibrationTree, rounded, stop_of
from mbct.validation import FloatArray

_LEAST_PROGRESS = 1e-8
"""Fall of the mean held-out loss that counts as progress."""
_RECENTRE_ON = 50_000
"""Parts of cells on which the mean of the folds is matched."""
_NEWTON_STEPS = 4


@dataclass(frozen=True)
class HonestOptions:
    """The recipe's constants; each was chosen for robustness over many data sets, not tuned to one.

    ``leaves``: tree sizes tried in turn, a later one only while the best has at most ``short_ensemble`` trees.
    ``rate`` None: 0.1 up to ``small_data`` rows, 0.2 above, where it costs nothing that can be measured and half the
    time. ``overshoot``: the mean of several ensembles wants more trees than each of them alone. ``most_cells``: larger
    data are thinned to this many cells at random, so that time stays in hand.
    """

    max_trees: int = 600
    leaves: tuple[int, ...] = (15, 5)
    rate: float | None = None
    tau: float = 10.0
    min_curvature: float = 3.0
    feature_share: float = 0.6
    n_folds: int = 5
    patience: int = 20
    short_ensemble: int = 200
    overshoot: float = 1.3
    small_data: float = 30_000
    most_cells: int = 2_000_000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n_folds < 2:
            raise ParameterError(f"n_folds={self.n_folds!r} must be at least 2: one part must be left out")
        if self.max_trees < 1 or not self.leaves or min(self.leaves) < 2:
            raise ParameterError(
                f"max_trees={self.max_trees!r} must be at least 1 and leaves={self.leaves!r} at least 2"
            )
        if self.rate is not None and not 0.0 < self.rate <= 1.0:
            raise ParameterError(f"learning_rate={self.rate!r} must lie above 0 and at most at 1")
        if not 0.0 < self.feature_share <= 1.0:
            raise ParameterError(f"feature_share={self.feature_share!r} must lie above 0 and at most at 1")

    def growth(self, max_leaves: int, n_rows: float) -> HonestGrowth:
        """Growth of one tree with that many leaves on so many rows."""
        rate = (0.1 if n_rows <= self.small_data else 0.2) if self.rate is None else self.rate
        return HonestGrowth(max_leaves, self.tau, self.min_curvature, rate)


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


def parts_of(cells: Cells, ordered: tuple[bool, ...], n_folds: int, seed: int) -> Parts:
    """Spread cells over folds. A cell moves at the mean log-odds of its rows, which is exact for row-level cells."""
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
        n_features = len(parts.ordered)
        n_used = int(np.ceil(self.options.feature_share * n_features))
        features = np.sort(self.rng.permutation(n_features)[:n_used])
        seed = self.rng.integers(0, 2**63, dtype=np.uint64)
        gradients(self.log_odds, parts.count, parts.label, seed, True, self.gradient)
        tree = grow_honest(
            parts.codes,
            self.gradient,
            self.grown_on.copy(),
            parts.offset,
            parts.ordered,
            features,
            growth.max_leaves,
            growth.tau,
            growth.min_curvature,
            growth.rate,
            True,
        )
        step = rounded(tree.step * growth.rate)
        sums = settle_rows(tree, step, self.gradient, parts.count, parts.label, self.log_odds)
        self.trees.append(frozen_tree(tree, step, sums))
        _settle_left_out(parts.codes, self.left_out, tree.feature, tree.table_start, tree.table, step, self.log_odds)
        return self.held_out_loss()

    def held_out_loss(self) -> float:
        """Summed log loss of the rows left out."""
        return _summed_log_loss(self.left_out, self.log_odds, self.parts.count, self.parts.label)


@kernel
def _settle_left_out(codes, rows, feature, table_start, table, step, log_odds) -> None:  # type: ignore[no-untyped-def]
    for i in rows:
        log_odds[i] += step[stop_of(codes, i, feature, table_start, table)]


@kernel
def _summed_log_loss(rows: npt.NDArray[np.int32], log_odds: FloatArray, count: FloatArray, label: FloatArray) -> float:
    total = 0.0
    for i in rows:
        z = log_odds[i]
        total += count[i] * (max(z, 0.0) + np.log1p(np.exp(-abs(z)))) - label[i] * z
    return total


@dataclass(frozen=True)
class Candidate:
    """Fold ensembles of one tree size: how many trees were best, at what mean held-out loss, and the log-odds there."""

    max_leaves: int
    n_trees: int
    loss: float
    held_out: FloatArray
    trees: tuple[tuple[CalibrationTree, ...], ...]


def grow_folds(
    parts: Parts,
    max_leaves: int,
    options: HonestOptions,
    n_threads: int,
    rival: Candidate | None,
    on_round: Callable[[int], None],
) -> Candidate:
    """Grow all folds in lock-step until the pooled held-out loss has not fallen for ``patience`` rounds."""
    folds = [FoldGrower(parts, fold, max_leaves, options) for fold in range(options.n_folds)]
    mass = float(parts.count.sum())
    held_out = parts.log_odds.copy()
    best, best_round = sum(fold.held_out_loss() for fold in folds) / mass, 0
    with ThreadPoolExecutor(max(1, min(n_threads, options.n_folds))) as pool:
        for number in range(1, options.max_trees + 1):
            loss = sum(pool.map(FoldGrower.grow, folds)) / mass
            on_round(number)
            if loss < best - _LEAST_PROGRESS:
                best, best_round = loss, number
                for fold in folds:
                    held_out[fold.left_out] = fold.log_odds[fold.left_out]
            elif number - best_round >= options.patience:
                break
            if rival is not None and number > 3 * rival.n_trees + 20 and best > rival.loss:
                break
    return Candidate(max_leaves, best_round, best, held_out, tuple(tuple(fold.trees) for fold in folds))


def certainty(parts: Parts, held_out: FloatArray) -> float:
    """Mean held-out gain in log loss over its standard error; a cell's rows count one by one."""
    if_positive = _log_loss(parts.log_odds, 1.0) - _log_loss(held_out, 1.0)
    if_negative = _log_loss(parts.log_odds, 0.0) - _log_loss(held_out, 0.0)
    negatives = parts.count - parts.label
    mass = float(parts.count.sum())
    mean = float(np.sum(parts.label * if_positive + negatives * if_negative)) / mass
    square = float(np.sum(parts.label * if_positive**2 + negatives * if_negative**2)) / mass
    error = np.sqrt(max(square - mean * mean, 0.0) / mass)
    return float(mean / error) if error > 0.0 else 0.0


def _log_loss(log_odds: FloatArray, label: float) -> FloatArray:
    return np.logaddexp(0.0, log_odds) - label * log_odds


def boost_honest(
    cells: Cells,
    ordered: tuple[bool, ...],
    options: HonestOptions,
    n_threads: int,
    on_round: Callable[[int], None] = lambda _: None,
) -> tuple[tuple[CalibrationTree, ...], FitTrace]:
    """The trees of the honest ensemble, their steps averaged over folds; none where nothing is to be gained.

    Cells must be in canonical order, which is a random one.
    """
    if len(cells) > options.most_cells:
        cells = cells.select(np.arange(options.most_cells))
    parts = parts_of(cells, ordered, options.n_folds, options.seed)
    base = float(np.sum(parts.count * _log_loss(parts.log_odds, 0.0) - parts.label * parts.log_odds))
    best: Candidate | None = None
    rounds: list[RoundRecord] = []
    for max_leaves in options.leaves:
        if best is not None and best.n_trees > options.short_ensemble:
            break
        found = grow_folds(parts, max_leaves, options, n_threads, best, on_round)
        if best is None or found.loss < best.loss:
            best = found
        rounds.append(RoundRecord(len(rounds), base / float(parts.count.sum()), found.loss, found is best))
    if best is None:
        raise ParameterError("leaves must name at least one tree size")
    sureness = certainty(parts, best.held_out)
    shrinkage = max(0.0, 1.0 - 1.0 / sureness**2) if sureness > 1.0 else 0.0
    trace = FitTrace("log loss, held out", (), tuple(rounds))
    if not best.n_trees or shrinkage == 0.0:
        return (), trace
    n_trees = min(round(best.n_trees * options.overshoot), len(best.trees[0]))
    factor = shrinkage / options.n_folds
    folds = [tuple(tree.rescaled(factor) for tree in fold[:n_trees]) for fold in best.trees]
    return _recentred(folds, parts), trace


def _recentred(folds: list[tuple[CalibrationTree, ...]], parts: Parts) -> tuple[CalibrationTree, ...]:
    """All trees of the folds, with the first one's steps moved so that the mean prediction is that of the folds.

    The mean of log-odds is more extreme than the mean of probabilities; on rare events that is a bias downwards. The
    folds' own mean is matched on a sample, which needs no labels.
    """
    codes = parts.codes[:_RECENTRE_ON]
    count, start = parts.count[: len(codes)], parts.log_odds[: len(codes)]
    steps = np.zeros((len(folds), len(codes)))
    for fold, trees in enumerate(folds):
        for tree in trees:
            steps[fold] += tree.step[tree.apply(codes)]
    target = float(np.sum(count * sigmoid(start + len(folds) * steps).mean(axis=0)))
    centre, total = 0.0, start + steps.sum(axis=0)
    for _ in range(_NEWTON_STEPS):
        q = sigmoid(total + centre)
        centre += (target - float(np.sum(count * q))) / float(np.sum(count * q * (1.0 - q)))
    first, *others = (tree for trees in folds for tree in trees)
    return (replace(first, step=rounded(first.step + centre)), *others)
