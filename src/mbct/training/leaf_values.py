"""Leaf values fitted after a tree has its shape: Newton sums of groups of rows, and what lies in each node."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix, code_offsets
from mbct.model.masks import stops_of_rows
from mbct.model.tree import CalibrationTree, IntArray, rounded
from mbct.stats.logodds import sigmoid
from mbct.training.cells import Cells
from mbct.validation import FloatArray

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
        log_odds += tree.step[node]
        finished.append(_summed_upwards(tree, sums))
    return finished


def _summed_upwards(tree: CalibrationTree, sums: FloatArray) -> CalibrationTree:
    step = tree.step.copy()
    for node in range(tree.n_nodes - 1, -1, -1):
        children = tree.child_numbers(node)
        if len(children):
            weight = sums[children, 0]
            if weight.sum() > 0.0:
                step[node] = np.average(step[children], weights=weight)
            sums[node] += sums[children].sum(axis=0)
    count, label, pred = (rounded(sums[:, column]) for column in range(3))
    return replace(tree, step=rounded(step), count=count, label=label, pred=pred)
