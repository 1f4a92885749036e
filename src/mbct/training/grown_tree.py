"""A grown tree before it is frozen: its arrays and the rows of each node, which move by their leaf's value."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.tree import CalibrationTree, IntArray, rounded
from mbct.training.blocks import BlockNumbers
from mbct.training.histogram import GradientArray
from mbct.validation import FloatArray


class GrownTree(NamedTuple):
    """A grown tree's arrays and the rows, with each node's range among them.

    ``intercept`` of each block that was taken out of the gradients; empty where rows are independent.
    """

    feature: IntArray
    table_start: npt.NDArray[np.int64]
    table: IntArray
    step: FloatArray
    rows: npt.NDArray[np.int32]
    begin: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    intercept: FloatArray


@kernel
def settle_rows(
    tree: GrownTree,
    step: FloatArray,
    gradient: GradientArray,
    weight: FloatArray,
    label: FloatArray,
    log_odds: FloatArray,
    block: BlockNumbers,
) -> FloatArray:
    """Move the rows a tree was grown on by their leaf's step; returns count, label and prediction sums of each node.

    Σq needs no logarithm: it is Σy − G, to which what was taken out of G for the row's block comes back.
    """
    n_nodes = len(tree.feature)
    sums = np.zeros((n_nodes, 3))
    for node in range(n_nodes - 1, -1, -1):
        if tree.feature[node] < 0:
            total = 0.0
            positives = 0.0
            predicted = 0.0
            for t in range(tree.begin[node], tree.end[node]):
                i = np.uint64(tree.rows[t])
                total += weight[i]
                positives += label[i]
                predicted += label[i] - gradient[i, 0] - gradient[i, 2]
                if len(tree.intercept) > 0:
                    predicted -= (gradient[i, 1] + gradient[i, 3]) * tree.intercept[block[i]]
                log_odds[i] += step[node]
            sums[node, 0], sums[node, 1], sums[node, 2] = total, positives, predicted
        else:
            left = tree.table[tree.table_start[node] : _table_end(tree, node)].max() - 1
            sums[node] = sums[left] + sums[left + 1]
    return sums


@kernel
def _table_end(tree: GrownTree, node: int) -> int:
    for later in range(node + 1, len(tree.feature)):
        if tree.table_start[later] > tree.table_start[node]:
            return int(tree.table_start[later])
    return len(tree.table)


def frozen_tree(tree: GrownTree, step: FloatArray, sums: FloatArray) -> CalibrationTree:
    """The grown tree as plain data, with the steps that are applied and the sums of its nodes."""
    columns = (rounded(sums[:, column]) for column in range(3))
    return CalibrationTree(tree.feature, tree.table_start, tree.table, step, *columns)
