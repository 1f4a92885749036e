"""Theorem 1 for every calibrated probability: the bin a row falls into, and how far that bin's truth can be.

The bins are the leaves of one tree. The paper's ensemble takes its last, whose multipliers make label and prediction
agree in every bin; the default takes its first, which splits by the strongest bias.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mbct.boosting.model import CalibrationEnsemble
from mbct.cells.cells import Cells
from mbct.cells.group import CodeMatrix
from mbct.stats.logodds import sigmoid
from mbct.stats.theorem import label_rate_bound
from mbct.tree.model import CalibrationTree, IntArray, rounded
from mbct.validation import FloatArray

BIN_SUMS = ("count", "label", "pred")


@dataclass(frozen=True, eq=False)
class BinBounds:
    """Rows, positives and summed calibrated predictions of each node of the tree whose leaves are the bins."""

    count: FloatArray
    label: FloatArray
    pred: FloatArray

    def intervals(
        self, node: IntArray, calibrated: FloatArray, n_bins: int, alpha: float, negative_rate: float = 1.0
    ) -> tuple[FloatArray, FloatArray]:
        """[ŷ_b − ε_b, ŷ_b + ε_b], equation (bound_eq), handed to the rows of bin b in proportion to their prediction.

        The mean over a bin of the lower ends is ŷ_b − ε_b, that of the upper ends ŷ_b + ε_b: with probability 1 − α
        the true rate of every bin lies between them. Where only a share ``negative_rate`` of the negatives was kept,
        that is said of the sampled rows, and both ends are brought back to the population.
        """
        label_rate = np.divide(self.label, self.count, out=np.zeros_like(self.count), where=self.count > 0)
        bound = label_rate_bound(label_rate, self.count, n_bins, alpha)
        low, high = np.maximum(label_rate - bound, 0.0), np.minimum(label_rate + bound, 1.0)
        mean = np.divide(self.pred, self.count, out=np.ones_like(self.count), where=self.count > 0)
        sampled = odds_scaled(calibrated, 1.0 / negative_rate)
        ends = (np.clip(end[node] / np.maximum(mean[node], 1e-12) * sampled, 0.0, 1.0) for end in (low, high))
        lower, upper = (odds_scaled(end, negative_rate) for end in ends)
        return lower, upper

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {name: column.tolist() for name, column in vars(self).items()}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Undo :meth:`to_dict`."""
        return cls(*(np.asarray(content[name], dtype=np.float64) for name in BIN_SUMS))


def odds_scaled(probability: FloatArray, factor: float) -> FloatArray:
    """Probabilities with their odds multiplied: by the share of negatives kept, from sampled rows to all of them."""
    return probability * factor / (probability * factor + 1.0 - probability)


def bin_tree(model: CalibrationEnsemble) -> CalibrationTree | None:
    """The tree whose leaves are the bins; None where the ensemble has no tree and all rows are one bin."""
    if not model.trees:
        return None
    return model.trees[-1 if model.pattern == "linear" else 0]


def bin_of(model: CalibrationEnsemble, codes: CodeMatrix) -> tuple[IntArray, int]:
    """The bin of each coded row, and how many bins there are."""
    tree = bin_tree(model)
    if tree is None:
        return np.zeros(len(codes), dtype=np.int32), 1
    return tree.apply(codes), len(tree.leaves)


def bounds_of_cells(model: CalibrationEnsemble, cells: Cells, negative_rate: float = 1.0) -> BinBounds:
    """Sums of each bin of an "odds" ensemble under its predictions, as they stand among the sampled rows."""
    log_odds = cells.sums.logit / cells.sums.count + model.total_step(cells.codes) - np.log(negative_rate)
    tree = bin_tree(model)
    node, _ = bin_of(model, cells.codes)
    n_nodes = 1 if tree is None else tree.n_nodes
    amounts = (cells.sums.count, cells.sums.label, cells.sums.count * sigmoid(log_odds))
    columns = [np.bincount(node, amount, n_nodes).astype(np.float64) for amount in amounts]
    if tree is not None:
        for inner in range(n_nodes - 1, -1, -1):
            children = tree.child_numbers(inner)
            for column in columns:
                column[inner] += column[children].sum()
    return BinBounds(*(rounded(column) for column in columns))


def bounds_of_tree(model: CalibrationEnsemble, total: Callable[[], FloatArray]) -> BinBounds:
    """Sums of each bin of a "linear" ensemble, which its last tree holds itself; without trees all rows are one bin.

    ``total`` finds count, label and prediction of all rows; it is asked only where there is no tree.
    """
    tree = bin_tree(model)
    if tree is None:
        return BinBounds(*rounded(total()).reshape(len(BIN_SUMS), 1))
    return BinBounds(tree.count, tree.label, rounded(np.minimum(tree.pred * tree.step, tree.count)))
