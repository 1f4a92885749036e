"""What a split is evaluated by: the closed form of MVCE, or any loss computed from the rows of a node.

The paper trains on MVCE and compares with ECE and ECE_sweep; the Monte Carlo of MVCE, as printed, is kept to show
that the closed form chooses the same splits at a fraction of the cost.
"""

from collections.abc import Callable

import numpy as np

from mbct.errors import ParameterError
from mbct.model.tree import CalibrationTree
from mbct.stats.expected_error import ece_of_rows, ece_sweep_of_rows
from mbct.stats.multi_view import monte_carlo_mvce
from mbct.training.paper.histogram import COUNT, LABEL, PRED, CellSource, Positions, unpacked_cells
from mbct.training.paper.multiway import MultiwaySplits
from mbct.validation import FloatArray

RowLoss = Callable[[FloatArray, FloatArray, FloatArray, float], float]
"""Loss of (prediction, label rate, weight) of the rows of a node, at a given bin size."""

CLOSED_FORM = "mvce"


def _ece(y_prob: FloatArray, y_true: FloatArray, weight: FloatArray, bin_size: float) -> float:
    n_bins = max(int(weight.sum() / bin_size), 1)
    return ece_of_rows(y_prob, y_true, weight, n_bins, 2.0)


def _ece_sweep(y_prob: FloatArray, y_true: FloatArray, weight: FloatArray, bin_size: float) -> float:  # noqa: ARG001 - every RowLoss takes it
    return ece_sweep_of_rows(y_prob, y_true, weight, 2.0)


def _monte_carlo(y_prob: FloatArray, y_true: FloatArray, weight: FloatArray, bin_size: float) -> float:
    return monte_carlo_mvce(y_prob, y_true, weight, bin_size=bin_size, n_views=100, norm=2.0, seed=0).value


ROW_LOSSES: dict[str, RowLoss] = {"ece": _ece, "ece_sweep": _ece_sweep, "mvce-monte-carlo": _monte_carlo}


def row_loss(name: str) -> RowLoss | None:
    """The row loss called ``name``; None for the closed form, which needs no rows."""
    if name == CLOSED_FORM:
        return None
    if name not in ROW_LOSSES:
        raise ParameterError(f"loss={name!r} is unknown; choose {', '.join([CLOSED_FORM, *ROW_LOSSES])}")
    return ROW_LOSSES[name]


class RowLossEvaluator:
    """Evaluates splits by a row loss; a cell counts as rows that share its mean prediction and label rate."""

    def __init__(self, source: CellSource, loss: RowLoss, bin_size: float):
        self.source = source
        self.loss = loss
        self.bin_size = bin_size

    def node_loss(self, node: int, multiplier: float) -> float:
        """Loss of a node under one multiplier."""
        return self._loss(self.source.cells_of(node), multiplier)

    def split_loss(self, node: int, split: MultiwaySplits) -> float:
        """Loss of a node after its only split."""
        at_node = self.source.cells_of(node)
        codes = self.source.codes[at_node, int(split.feature[0])]
        return self._loss(at_node, split.multiplier_of_codes()[codes])

    def tree_loss(self, tree: CalibrationTree) -> float:
        """Loss of all cells under a tree."""
        everywhere = np.argsort(self.source.held[:, -1])
        return self._loss(everywhere, tree.leaf_value[tree.apply(self.source.codes[everywhere])])

    def _loss(self, cells: Positions, multiplier: FloatArray | float) -> float:
        sums = unpacked_cells(self.source.sums[cells])
        count = sums[:, COUNT]
        prediction = np.clip(sums[:, PRED] / count * multiplier, 0.0, 1.0)
        return self.loss(prediction, sums[:, LABEL] / count, count, self.bin_size)
