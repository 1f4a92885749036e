"""Losses without a closed form, computed from the cells of a node: ECE, ECE_sweep, Monte Carlo MVCE."""

import numpy as np

from mbct.tree.histogram import COUNT, LABEL, PRED, CellSource, unpacked_cells
from mbct.tree.losses import RowLoss
from mbct.tree.model import CalibrationTree
from mbct.tree.multiway import MultiwaySplits
from mbct.tree.node_order import Positions
from mbct.validation import FloatArray


class RowJudge:
    """Judges splits by a row loss; a cell counts as rows that share its mean prediction and label rate."""

    def __init__(self, source: CellSource, loss: RowLoss, bin_size: float):
        self.source = source
        self.loss = loss
        self.bin_size = bin_size

    def node_loss(self, node: int, multiplier: float) -> float:
        """Loss of a node under one multiplier."""
        return self._loss(self.source.cells.positions(node), multiplier)

    def split_loss(self, node: int, split: MultiwaySplits) -> float:
        """Loss of a node after its only split."""
        at_node = self.source.cells.positions(node)
        codes = self.source.cells.codes[at_node, int(split.feature[0])]
        return self._loss(at_node, split.multiplier_of_codes()[codes])

    def tree_loss(self, tree: CalibrationTree) -> float:
        """Loss of all cells under a tree."""
        everywhere = self.source.cells.positions()
        n_features = len(self.source.n_codes)
        return self._loss(everywhere, tree.step[tree.apply(self.source.cells.codes[everywhere, :n_features])])

    def _loss(self, positions: Positions, multiplier: FloatArray | float) -> float:
        sums = unpacked_cells(self.source.cells.sums[positions])
        count = sums[:, COUNT]
        prediction = np.clip(sums[:, PRED] / count * multiplier, 0.0, 1.0)
        return self.loss(prediction, sums[:, LABEL] / count, count, self.bin_size)
