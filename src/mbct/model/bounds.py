"""Theorem 1 for every calibrated probability: the bin a row falls into, and how far that bin's truth can be.

The bins are the leaves of one tree. The paper's ensemble takes its last, whose multipliers make label and prediction
agree in every bin; the default takes the one that tells most rows apart by their bias.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mbct.model.bins import CodeMatrix
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.tree import NODE_SUMS, CalibrationTree, IntArray, rounded
from mbct.stats.logodds import sigmoid
from mbct.stats.sums import Sums
from mbct.stats.theorem import label_rate_bound
from mbct.validation import FloatArray

BIN_SUMS = NODE_SUMS


@dataclass(frozen=True, eq=False)
class BinBounds:
    """Rows and positives of each node of the tree whose leaves are the bins, and its summed calibrated predictions.

    Rows are those the theorem counts: where negatives were sampled, the sampled ones. Predictions are summed over the
    population, in which a kept negative stands for those that were left out.
    """

    count: FloatArray
    label: FloatArray
    pred: FloatArray

    def intervals(
        self, node: IntArray, calibrated: FloatArray, n_bins: int, alpha: float, negative_sampling_rate: float = 1.0
    ) -> tuple[FloatArray, FloatArray]:
        """[ŷ_b − ε_b, ŷ_b + ε_b], equation (bound_eq), handed to the rows of bin b in proportion to their prediction.

        The mean over a bin of the lower ends is ŷ_b − ε_b, that of the upper ends ŷ_b + ε_b: with probability 1 − α
        the true rate of every bin lies between them. Where only a share r = ``negative_sampling_rate`` of the
        negatives was kept, the theorem holds for the sampled rows, whose odds in every bin are those of the population
        over r; so both ends are brought back by the odds before they are handed out.
        """
        label_rate = np.divide(self.label, self.count, out=np.zeros_like(self.count), where=self.count > 0)
        bound = label_rate_bound(label_rate, self.count, n_bins, alpha)
        ends = np.maximum(label_rate - bound, 0.0), np.minimum(label_rate + bound, 1.0)
        population = self.label + (self.count - self.label) / negative_sampling_rate
        mean = np.divide(self.pred, population, out=np.ones_like(population), where=population > 0)
        lower, upper = (odds_scaled(end, negative_sampling_rate) / np.maximum(mean, 1e-12) for end in ends)
        return np.clip(lower[node] * calibrated, 0.0, 1.0), np.clip(upper[node] * calibrated, 0.0, 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {name: column.tolist() for name, column in vars(self).items()}


def odds_scaled(probability: FloatArray, factor: float) -> FloatArray:
    """Probabilities with their odds multiplied: by the share of negatives kept, from sampled rows to all of them."""
    return probability * factor / (probability * factor + 1.0 - probability)


def bin_tree(model: CalibrationEnsemble) -> CalibrationTree | None:
    """The tree whose leaves are the bins; None where the ensemble has no tree and all rows are one bin."""
    if not model.trees:
        return None
    return model.trees[-1] if model.link == "linear" else max(model.trees, key=_told_apart)


def _told_apart(tree: CalibrationTree) -> float:
    """Σ_b count_b·(step_b − mean step)² over the leaves: how far the tree moves rows from one another."""
    count, step = tree.count[tree.leaves], tree.step[tree.leaves]
    mass = float(count.sum())
    return float(np.sum(count * (step - np.sum(count * step) / mass) ** 2)) if mass > 0.0 else 0.0


def bin_of(model: CalibrationEnsemble, codes: CodeMatrix) -> tuple[IntArray, int]:
    """The bin of each coded row, and how many bins there are."""
    tree = bin_tree(model)
    if tree is None:
        return np.zeros(len(codes), dtype=np.int32), 1
    return tree.apply(codes), len(tree.leaves)


def bounds_of_cells(
    model: CalibrationEnsemble, codes: CodeMatrix, sums: Sums, negative_sampling_rate: float = 1.0
) -> BinBounds:
    """Sums of each bin of an "odds" ensemble; ``negative_sampling_rate`` of the negatives are among the rows."""
    log_odds = sums.logit / sums.count + model.total_step(codes)
    population = sums.label + (sums.count - sums.label) / negative_sampling_rate
    tree = bin_tree(model)
    node, _ = bin_of(model, codes)
    n_nodes = 1 if tree is None else tree.n_nodes
    amounts = (sums.count, sums.label, population * sigmoid(log_odds))
    columns = [np.bincount(node, amount, n_nodes).astype(np.float64) for amount in amounts]
    if tree is not None:
        for inner in range(n_nodes - 1, -1, -1):
            children = tree.child_numbers(inner)
            for column in columns:
                column[inner] += column[children].sum()
    return BinBounds(*(rounded(column) for column in columns))


def bounds_of_tree(
    model: CalibrationEnsemble, total: Callable[[], FloatArray], negative_sampling_rate: float = 1.0
) -> BinBounds:
    """Sums of each bin of a "linear" ensemble, which its last tree holds itself; without trees all rows are one bin.

    ``total`` finds count, label and prediction of all rows; it is asked only where there is no tree. These count a kept
    negative 1/``negative_sampling_rate`` times; the theorem counts it once.
    """
    tree = bin_tree(model)
    if tree is None:
        count, label, pred = rounded(total()).reshape(len(BIN_SUMS), 1)
    else:
        count, label, pred = tree.count, tree.label, rounded(np.minimum(tree.pred * tree.step, tree.count))
    return BinBounds(rounded(label + (count - label) * negative_sampling_rate), label, pred)
