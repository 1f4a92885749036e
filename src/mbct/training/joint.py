"""Joint boosting of many classes: one tree for each class and round, all bound by the softmax of their sums.

q_k = softmax_k(log p_k + S_k). Against all other classes together class k has the log-odds
z_k − log Σ_{j≠k} exp(z_j), so its tree is grown by the very kernels that two classes use. Folds, their mean and the
shrinkage are those of :mod:`mbct.training.fold_mean`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.model.bins import CodeMatrix
from mbct.model.tree import CalibrationTree
from mbct.training.binned_rows import Gain, gain_of_rows
from mbct.training.boosting import LockStep, best_size, fold_pool
from mbct.training.grower import frozen_tree, grow_honest, settle_rows
from mbct.training.histogram import gradients
from mbct.training.leaf_values import stops
from mbct.training.options import HonestOptions
from mbct.validation import FloatArray

ClassTrees = tuple[tuple[CalibrationTree, ...], ...]
"""The trees of each class."""


@dataclass(frozen=True)
class JointRows:
    """Coded rows of many classes: logarithms of the K scores, weight, number of the class, and fold.

    ``whole``: each is one row, whatever its weight.
    """

    codes: CodeMatrix
    log_score: FloatArray
    count: FloatArray
    label: npt.NDArray[np.intp]
    fold: npt.NDArray[np.uint8]
    offset: npt.NDArray[np.int64]
    ordered: npt.NDArray[np.bool_]
    whole: bool = False


def softmax(z: FloatArray) -> FloatArray:
    """Probabilities of rows of log-weights."""
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True), dtype=np.float64)


def _losses(z: FloatArray, label: npt.NDArray[np.intp]) -> FloatArray:
    """−log q of each row's class."""
    top = z.max(axis=1)
    return np.asarray(top + np.log(np.exp(z - top[:, None]).sum(axis=1)) - z[np.arange(len(z)), label])


def _against_the_rest(z: FloatArray, k: int) -> FloatArray:
    """Log-odds of class k: z_k − log Σ_{j≠k} exp(z_j)."""
    others = np.delete(z, k, axis=1)
    top = others.max(axis=1)
    return np.asarray(z[:, k] - top - np.log(np.exp(others - top[:, None]).sum(axis=1)))


class JointFold:
    """One fold's ensembles of all classes: grown on the other folds, judged on its own."""

    def __init__(self, rows: JointRows, fold: int, max_leaves: int, options: HonestOptions):
        self.rows = rows
        self.options = options
        self.growth = options.growth(max_leaves, float(rows.count.sum()))
        self.grown_on = np.flatnonzero(rows.fold != fold).astype(np.int32)
        self.left_out = np.flatnonzero(rows.fold == fold)
        self.log_odds = rows.log_score.copy()
        self.gradient = np.zeros((len(rows.count), 4), dtype=np.float32)
        self.rng = np.random.default_rng([options.seed, fold, max_leaves])
        self.trees: list[list[CalibrationTree]] = [[] for _ in range(self.log_odds.shape[1])]

    def grow(self) -> float:
        """Add a tree to every class; returns the summed log loss of the rows left out."""
        moved = self.log_odds.copy()
        for k in range(self.log_odds.shape[1]):
            self._grow_class(k, moved)
        self.log_odds = moved
        return self.held_out_loss()

    def held_out_loss(self) -> float:
        """Summed log loss of the rows left out."""
        rows = self.left_out
        return float(np.sum(self.rows.count[rows] * _losses(self.log_odds[rows], self.rows.label[rows])))

    def _grow_class(self, k: int, moved: FloatArray) -> None:
        rows, growth = self.rows, self.growth
        n_features = len(rows.ordered)
        n_used = int(np.ceil(self.options.feature_share * n_features))
        features = np.sort(self.rng.permutation(n_features)[:n_used])
        seed = self.rng.integers(0, 2**63, dtype=np.uint64)
        positive = rows.count * (rows.label == k)
        log_odds = _against_the_rest(self.log_odds, k)
        gradients(self.grown_on, log_odds, rows.count, positive, seed, True, rows.whole, self.gradient)
        tree = grow_honest(rows.codes, self.gradient, self.grown_on, rows.offset, rows.ordered, features, growth)
        step = tree.step * growth.rate
        sums = settle_rows(tree, step, self.gradient, rows.count, positive, log_odds)
        self.trees[k].append(frozen_tree(tree, step, sums))
        moved[:, k] += step[stops(self.trees[k][-1], rows.codes, rows.offset)]


def boost_joint(
    rows: JointRows, options: HonestOptions, n_threads: int, on_round: Callable[[int], None] = lambda _: None
) -> ClassTrees:
    """The trees of every class, averaged over folds and shrunk; none where nothing is to be gained."""
    mass = float(rows.count.sum())

    def of_size(leaves: int) -> LockStep[JointFold]:
        return LockStep([JointFold(rows, fold, leaves, options) for fold in range(options.n_folds)], mass, options)

    with fold_pool(n_threads, options.n_folds) as pool:
        best, _ = best_size(of_size(options.leaves[0]), of_size, options, mass, pool, on_round)
    shrinkage = _held_out_gain(rows, best.held_out).trust if best.n_trees else 0.0
    n_trees = min(round(best.n_trees * options.overshoot), best.n_rounds) if shrinkage > 0.0 else 0
    factor = shrinkage / options.n_folds
    kept = [[fold.trees[k][:n_trees] for fold in best.folds] for k in range(rows.log_score.shape[1])]
    return tuple(tuple(tree.rescaled(factor) for trees in folds for tree in trees) for folds in kept)


def _held_out_gain(rows: JointRows, held_out: FloatArray) -> Gain:
    """Mean fall of the log loss on left-out rows."""
    gain = _losses(rows.log_score, rows.label) - _losses(held_out, rows.label)
    return gain_of_rows(rows.count * gain, rows.count * gain**2, float(rows.count.sum()), rows.fold)
