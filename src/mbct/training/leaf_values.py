"""Leaf values: rows settle in the leaves of a grown tree, move by their values, and refit them by Newton steps."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix, code_offsets
from mbct.model.masks import stops_of_rows
from mbct.model.tree import CalibrationTree, IntArray, rounded
from mbct.stats.logodds import sigmoid
from mbct.training.blocks import BlockNumbers
from mbct.training.cells import Cells
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


Groups = npt.NDArray[Any]
"""Number of each row's group, such as a leaf or a value, of any integer type."""


@kernel
def newton_sums(
    rows: npt.NDArray[np.int32],
    group: Groups,
    log_odds: FloatArray,
    weight: FloatArray,
    label: FloatArray,
    n_groups: int,
) -> tuple[FloatArray, FloatArray]:
    """G = Σ(y − wq) and H = Σw·q(1 − q) of each group at q = σ(z), in one pass over the rows."""
    g = np.zeros(n_groups)
    h = np.zeros(n_groups)
    for i in rows:
        small = np.exp(-abs(log_odds[i]))
        q = (1.0 if log_odds[i] >= 0.0 else small) / (1.0 + small)
        g[group[i]] += label[i] - weight[i] * q
        h[group[i]] += weight[i] * q * (1.0 - q)
    return g, h


@kernel
def move(log_odds: FloatArray, change: FloatArray, group: Groups) -> None:
    """Add its group's change to every row's log-odds."""
    for i in range(len(log_odds)):
        log_odds[i] += change[group[i]]


def terminal_nodes(tree: CalibrationTree, codes: CodeMatrix, offset: npt.NDArray[np.int64]) -> IntArray:
    """Node in which each coded row ends."""
    rows = np.arange(len(codes), dtype=np.int32)
    return stops_of_rows(codes, rows, tree.feature, tree.table_start, tree.table, offset)


def with_sums(cells: Cells, trees: Sequence[CalibrationTree]) -> list[CalibrationTree]:
    """The trees with the sums of all cells in each node; an inner node's value is the mean of those below it."""
    log_odds = cells.sums.logit / cells.sums.count
    offset = code_offsets(cells.n_codes)
    finished = []
    for tree in trees:
        node = terminal_nodes(tree, cells.codes, offset)
        pred = cells.sums.count * sigmoid(log_odds)
        sums = np.column_stack(
            [np.bincount(node, amount, tree.n_nodes) for amount in (cells.sums.count, cells.sums.label, pred)]
        ).astype(np.float64)
        log_odds += tree.leaf_value[node]
        finished.append(_summed_upwards(tree, sums))
    return finished


def _summed_upwards(tree: CalibrationTree, sums: FloatArray) -> CalibrationTree:
    step = tree.leaf_value.copy()
    for node in range(tree.n_nodes - 1, -1, -1):
        children = tree.child_numbers(node)
        if len(children):
            weight = sums[children, 0]
            if weight.sum() > 0.0:
                step[node] = np.average(step[children], weights=weight)
            sums[node] += sums[children].sum(axis=0)
    count, label, pred = (rounded(sums[:, column]) for column in range(3))
    return replace(tree, leaf_value=rounded(step), count=count, label=label, pred=pred)
