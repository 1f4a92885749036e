"""What lies in each node of trees that were not grown on rows: counts, positives and predictions of all cells."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from mbct.binning.code_offsets import code_offsets
from mbct.cells.cells import Cells
from mbct.cells.group import CodeMatrix
from mbct.stats.logodds import sigmoid
from mbct.tree.masks import stops_of_rows
from mbct.tree.model import CalibrationTree, IntArray, rounded
from mbct.validation import FloatArray


def stops(tree: CalibrationTree, codes: CodeMatrix, offset: npt.NDArray[np.int64]) -> IntArray:
    """Node where each coded row stops."""
    rows = np.arange(len(codes), dtype=np.int32)
    return stops_of_rows(codes, rows, tree.feature, tree.table_start, tree.table, offset)


def with_sums(cells: Cells, trees: Sequence[CalibrationTree]) -> list[CalibrationTree]:
    """The trees with the sums of all cells in each node; an inner node's step is the mean of those below it."""
    log_odds = cells.sums.logit / cells.sums.count
    offset = code_offsets(cells.n_codes)
    finished = []
    for tree in trees:
        node = stops(tree, cells.codes, offset)
        pred = cells.sums.count * sigmoid(log_odds)
        sums = np.column_stack(
            [np.bincount(node, amount, tree.n_nodes) for amount in (cells.sums.count, cells.sums.label, pred)]
        ).astype(np.float64)
        log_odds += tree.step[node]
        finished.append(_summed_upwards(tree, sums))
    return finished


def _summed_upwards(tree: CalibrationTree, sums: FloatArray) -> CalibrationTree:
    step = tree.step.copy()
    for node in range(tree.n_nodes - 1, -1, -1):
        children = tree.child_numbers(node)
        if len(children):
            mass = sums[children, 0]
            if mass.sum() > 0.0:
                step[node] = np.average(step[children], weights=mass)
            sums[node] += sums[children].sum(axis=0)
    count, label, pred = (rounded(sums[:, column]) for column in range(3))
    return replace(tree, step=rounded(step), count=count, label=label, pred=pred)
