"""Joint boosting of many classes: one tree for each class and round, all bound by the softmax of their sums.

q_k = softmax_k(log p_k + S_k). Against all other classes together class k has the log-odds
z_k − log Σ_{j≠k} exp(z_j), so its tree is grown by the very kernels that two classes use. Folds, their mean and the
shrinkage are those of :mod:`mbct.training.default`.
"""

import numpy as np

from mbct.model.tree import CalibrationTree, terminal_nodes_of_rows
from mbct.training.binned_rows import BinnedRows
from mbct.training.boosting import BoostingOptions, CrossFittedBoosting, OnRound, fold_pool
from mbct.training.evidence import SIGNIFICANT_GAIN, gain_of_rows, significance, standard_error_of_gain
from mbct.training.grower import frozen_tree, grow_tree, settle_rows
from mbct.training.tree_size import best_size
from mbct.validation import FloatArray

ClassTrees = tuple[tuple[CalibrationTree, ...], ...]
"""The trees of each class."""


def _losses(z: FloatArray, label: FloatArray) -> FloatArray:
    """−log q of each row's class."""
    top = z.max(axis=1)
    return np.asarray(top + np.log(np.exp(z - top[:, None]).sum(axis=1)) - z[np.arange(len(z)), label.argmax(axis=1)])


def _against_the_rest(z: FloatArray, k: int) -> FloatArray:
    """Log-odds of class k: z_k − log Σ_{j≠k} exp(z_j)."""
    others = np.delete(z, k, axis=1)
    top = others.max(axis=1)
    return np.asarray(z[:, k] - top - np.log(np.exp(others - top[:, None]).sum(axis=1)))


class JointFold:
    """One fold's ensembles of all classes: fitted on the other folds, evaluated on its own."""

    def __init__(self, rows: BinnedRows, fold: int, max_leaves: int, options: BoostingOptions):
        self.rows = rows
        self.options = options
        self.tree_options = options.tree(max_leaves, float(rows.weight.sum()))
        self.train_rows = rows.train_rows(fold)
        self.held_out_rows = rows.held_out_rows(fold)
        self.log_odds = rows.log_odds.copy()
        self.gradient = np.zeros((len(rows.weight), 4), dtype=np.float32)
        self.rng = np.random.default_rng([options.seed, fold, max_leaves])
        self.trees: list[list[CalibrationTree]] = [[] for _ in range(self.log_odds.shape[1])]

    def grow(self) -> float:
        """Add a tree to every class; returns the summed log loss of the held-out rows."""
        moved = self.log_odds.copy()
        for k in range(self.log_odds.shape[1]):
            self._grow_class(k, moved)
        self.log_odds = moved
        return self.held_out_loss()

    def held_out_loss(self) -> float:
        """Summed log loss of the held-out rows."""
        rows = self.held_out_rows
        return float(np.sum(self.rows.weight[rows] * _losses(self.log_odds[rows], self.rows.label[rows])))

    def _grow_class(self, k: int, moved: FloatArray) -> None:
        rows, options = self.rows, self.tree_options
        n_used = int(np.ceil(self.options.feature_share * len(rows.usable)))
        features = np.sort(self.rng.permutation(rows.usable)[:n_used])
        seed = self.rng.integers(0, 2**63, dtype=np.uint64)
        positive = np.ascontiguousarray(rows.label[:, k])
        log_odds = _against_the_rest(self.log_odds, k)
        tree = grow_tree(rows, self.train_rows, features, log_odds, positive, self.gradient, options, seed)
        leaf_value = tree.leaf_value * options.rate
        sums = settle_rows(tree, leaf_value, self.gradient, rows.weight, positive, log_odds, rows.block_numbers)
        self.trees[k].append(frozen_tree(tree, leaf_value, sums))
        node = terminal_nodes_of_rows(
            rows.codes, rows.all_rows, tree.feature, tree.table_start, tree.table, rows.offset
        )
        moved[:, k] += leaf_value[node]


def boost_joint(
    rows: BinnedRows, options: BoostingOptions, n_threads: int, on_round: OnRound = lambda _: None
) -> ClassTrees:
    """The trees of every class, averaged over folds and shrunk; none where the gain is not significant.

    ``rows`` hold the logarithm of each class's score and the weight of each row in the column of its class.
    """
    weight = float(rows.weight.sum())

    def of_size(leaves: int) -> CrossFittedBoosting[JointFold]:
        folds = [JointFold(rows, fold, leaves, options) for fold in range(rows.n_folds)]
        return CrossFittedBoosting(folds, rows.evaluated_weight, options)

    with fold_pool(n_threads, rows.n_folds) as pool:
        best, _ = best_size(of_size(options.leaves[0]), of_size, options, weight, pool, on_round)
    shrinkage = _shrinkage(rows, best.held_out) if best.n_trees else 0.0
    n_trees = options.trees_of_mean(best.n_trees, best.n_rounds) if shrinkage > 0.0 else 0
    factor = shrinkage / rows.n_folds
    kept = [[fold.trees[k][:n_trees] for fold in best.folds] for k in range(rows.log_odds.shape[1])]
    return tuple(tuple(tree.rescaled(factor) for trees in folds for tree in trees) for folds in kept)


def _shrinkage(rows: BinnedRows, held_out: FloatArray) -> float:
    """Share of the correction to keep, by the fall of the log loss on held-out rows.

    Where rows belong to blocks, its standard error is that of block sums; all blocks together must show a significant
    gain, and recent ones decide how much of it is kept.
    """
    own, blocks = rows.evaluated, rows.blocks
    gain = _losses(rows.log_odds[own], rows.label[own]) - _losses(held_out[own], rows.label[own])
    weight = rows.weight[own]
    if blocks is None:
        return gain_of_rows(weight * gain, weight * gain**2, float(weight.sum()), rows.fold).shrinkage

    def z(weight: FloatArray) -> float:
        error = standard_error_of_gain(weight * gain, weight, blocks)
        mean = float(np.average(gain, weights=weight))
        return significance(mean / error, blocks.n_evaluated) if mean > 0.0 and error > 0.0 else 0.0

    if z(weight) < SIGNIFICANT_GAIN:
        return 0.0
    recent = z(weight * blocks.weight[blocks.number[own]])
    return 1.0 - 1.0 / recent**2 if recent > 1.0 else 0.0
