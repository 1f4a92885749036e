"""Losses without a closed form, computed from the cells of a node: ECE, ECE_sweep, Monte Carlo MVCE."""

import numpy as np

from mbct.tree.histogram import COUNT, LABEL, PRED, CellSource
from mbct.tree.losses import RowLoss
from mbct.tree.model import CalibrationTree
from mbct.tree.multiway import MultiwaySplit
from mbct.validation import FloatArray


class RowJudge:
    """Judges splits by a row loss; a cell counts as rows that share its mean prediction and label rate."""

    def __init__(self, source: CellSource, loss: RowLoss, bin_size: float):
        self.source = source
        self.loss = loss
        self.bin_size = bin_size

    def node_loss(self, node: int, multiplier: float) -> float:
        """Loss of a node under one multiplier."""
        at_node = self.source.node == node
        return self._loss(at_node, multiplier)

    def split_loss(self, node: int, split: MultiwaySplit) -> float:
        """Loss of a node after a split."""
        at_node = self.source.node == node
        multiplier = split.multiplier_of_codes()[self.source.codes[at_node, split.feature]]
        return self._loss(at_node, multiplier)

    def tree_loss(self, tree: CalibrationTree) -> float:
        """Loss of all cells under a tree."""
        return self._loss(slice(None), tree.step[tree.apply(self.source.codes)])

    def _loss(self, cells: np.ndarray | slice, multiplier: FloatArray | float) -> float:
        sums = self.source.sums[cells]
        count = sums[:, COUNT]
        prediction = np.clip(sums[:, PRED] / count * self.source.factor[cells] * multiplier, 0.0, 1.0)
        return self.loss(prediction, sums[:, LABEL] / count, count, self.bin_size)
