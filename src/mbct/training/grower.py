"""Best-first growth of a binary tree by cross-fitted gain, in kernels that let other threads run.

At prediction q the log loss has gradient G = Σw(y − q) and curvature H = Σw·q(1 − q) in the log-odds. Both are kept
for two random halves of the rows, four numbers in all, so that a split chosen on one half is evaluated on the other.
Rows then settle in the leaves of the grown tree, move by their values, and refit them by Newton steps.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix
from mbct.model.tree import CalibrationTree, IntArray, rounded
from mbct.stats.probabilities import probability_of, sigmoid
from mbct.stats.random_stream import half_of, random_bits
from mbct.training.binned_rows import BinnedRows, RowNumbers
from mbct.training.block_intercepts import NO_INTERCEPTS, gradients_within_blocks
from mbct.training.cells import Cells
from mbct.training.folds import BlockNumbers
from mbct.training.nodes import GrownTree, TreeOptions, allocate, freeze, measure, most_promising, partition, search
from mbct.training.splitter import GradientArray, add_rows, subtract
from mbct.validation import FloatArray


def grow_tree(
    rows: BinnedRows,
    train_rows: RowNumbers,
    features: npt.NDArray[np.int64],
    log_odds: FloatArray,
    label: FloatArray,
    gradient: GradientArray,
    options: TreeOptions,
    seed: np.uint64,
) -> GrownTree:
    """Grow one tree on some rows at their current log-odds, by the chosen features; ``gradient`` is overwritten.

    Fold growth, joint growth of many classes and distillation all come here. The two halves that rank splits are
    halves of the rows, or of the blocks where rows belong to some.
    """
    blocks = rows.blocks
    intercept = NO_INTERCEPTS
    if blocks is None:
        gradients(train_rows, log_odds, rows.weight, label, seed, options.cross_fitted, rows.atomic, 0, gradient)
    else:
        half = halves_of_blocks(len(blocks), seed, options)
        intercept = gradients_within_blocks(train_rows, log_odds, rows.weight, label, blocks.number, half, gradient)
    grown = _grow(rows.codes, gradient, train_rows, rows.offset, rows.ordered, features, options)
    return grown._replace(intercept=intercept)


def halves_of_blocks(n_blocks: int, seed: np.uint64, options: TreeOptions) -> npt.NDArray[np.uint8]:
    """Random half of each block; the first for all without cross-fitting."""
    half = (np.random.default_rng(seed).permutation(n_blocks) % 2).astype(np.uint8)
    return half * np.uint8(options.cross_fitted)


@kernel
def _grow(
    codes: CodeMatrix,
    gradient: GradientArray,
    train_rows: RowNumbers,
    offset: npt.NDArray[np.int64],
    ordered: npt.NDArray[np.bool_],
    features: npt.NDArray[np.int64],
    growth: TreeOptions,
) -> GrownTree:
    """One tree, always splitting the leaf that gains most."""
    max_leaves = growth.max_leaves
    rows = train_rows.copy()
    widest = 0
    for j in range(len(offset) - 1):
        widest = max(widest, offset[j + 1] - offset[j])
    nodes = allocate(2 * max_leaves, widest)
    histograms = np.empty((max_leaves, offset[-1], 4))
    scratch = np.empty(widest, np.uint8)
    buffer = np.empty(len(rows), np.int32)
    first, last = offset[features[0]], offset[features[0] + 1]
    nodes.end[0] = len(rows)
    add_rows(codes, gradient, features, rows, offset, histograms[0])
    measure(nodes, 0, -1, histograms[0, first:last], growth)
    if max_leaves > 1:
        search(nodes, 0, histograms[0], features, offset, ordered, growth, scratch)
    n_nodes = 1
    n_leaves = 1
    while n_leaves < max_leaves:
        node = most_promising(nodes, n_nodes)
        if node < 0 or (not growth.cross_fitted and nodes.score[node] <= 0.0):
            break
        middle = partition(nodes, node, codes, rows, buffer)
        left, right = n_nodes, n_nodes + 1
        nodes.feature[node] = nodes.candidate[node]
        nodes.left[node] = left
        nodes.begin[left], nodes.end[left] = nodes.begin[node], middle
        nodes.begin[right], nodes.end[right] = middle, nodes.end[node]
        small = left if middle - nodes.begin[left] <= nodes.end[right] - middle else right
        large = left + right - small
        nodes.slot[small] = n_leaves
        nodes.slot[large] = nodes.slot[node]
        n_nodes += 2
        n_leaves += 1
        fresh, kept = histograms[nodes.slot[small]], histograms[nodes.slot[large]]
        add_rows(codes, gradient, features, rows[nodes.begin[small] : nodes.end[small]], offset, fresh)
        subtract(kept, fresh, features, offset)
        for child in (left, right):
            histogram = histograms[nodes.slot[child]]
            measure(nodes, child, node, histogram[first:last], growth)
            if n_leaves < max_leaves:
                search(nodes, child, histogram, features, offset, ordered, growth, scratch)
    return freeze(nodes, n_nodes, rows, offset)


@kernel
def gradients(
    rows: npt.NDArray[np.int32],
    log_odds: FloatArray,
    weight: FloatArray,
    label: FloatArray,
    seed: np.uint64,
    cross_fitted: bool,
    atomic: bool,
    first_row: int,
    out: GradientArray,
) -> None:
    """Gradient and curvature of the rows (or parts of cells), split into two random halves.

    A part of several rows is split row by row, unless it is ``atomic``. Without ``cross_fitted`` everything lies in
    the first half. ``first_row``: number among all rows of the first one at hand, as halves are drawn by number.
    """
    for i in rows:
        q = probability_of(log_odds[i])
        curvature = q * (1.0 - q)
        if cross_fitted and (atomic or weight[i] == 1.0):
            half = int(random_bits(seed, first_row + i, 0) >> np.uint64(63))
            out[i, 2 * half] = label[i] - weight[i] * q
            out[i, 2 * half + 1] = weight[i] * curvature
            out[i, 2 - 2 * half] = 0.0
            out[i, 3 - 2 * half] = 0.0
            continue
        positives = label[i]
        negatives = weight[i] - label[i]
        first_positives = half_of(positives, seed, first_row + i, 0) if cross_fitted else positives
        first_negatives = half_of(negatives, seed, first_row + i, 1) if cross_fitted else negatives
        second_positives = positives - first_positives
        second_negatives = negatives - first_negatives
        first = first_positives + first_negatives
        second = second_positives + second_negatives
        out[i, 0] = first_positives - first * q
        out[i, 1] = first * curvature
        out[i, 2] = second_positives - second * q
        out[i, 3] = second * curvature


@kernel
def settle_rows(
    tree: GrownTree,
    leaf_value: FloatArray,
    gradient: GradientArray,
    weight: FloatArray,
    label: FloatArray,
    log_odds: FloatArray,
    block: BlockNumbers,
) -> FloatArray:
    """Move the rows a tree was grown on by their leaf's value; returns count, label and prediction sums of each node.

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
                log_odds[i] += leaf_value[node]
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


def frozen_tree(tree: GrownTree, leaf_value: FloatArray, sums: FloatArray) -> CalibrationTree:
    """The grown tree as plain data, with the leaf values that are applied and the sums of its nodes."""
    columns = (rounded(sums[:, column]) for column in range(3))
    return CalibrationTree(tree.feature, tree.table_start, tree.table, leaf_value, *columns)


@kernel
def terminal_nodes_of_growth(tree: GrownTree, out: IntArray) -> None:
    """Write the leaf of every row that a tree was grown on."""
    for node in range(len(tree.feature)):
        if tree.feature[node] < 0:
            for t in range(tree.begin[node], tree.end[node]):
                out[tree.rows[t]] = node


def with_sums(cells: Cells, trees: Sequence[CalibrationTree]) -> list[CalibrationTree]:
    """The trees with the sums of all cells in each node; an inner node's value is the mean of those below it."""
    log_odds = cells.sums.logit / cells.sums.count
    finished = []
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for tree, node in zip(trees, pool.map(lambda tree: tree.apply(cells.codes), trees), strict=True):
            pred = cells.sums.count * sigmoid(log_odds)
            sums = np.column_stack(
                [np.bincount(node, amount, tree.n_nodes) for amount in (cells.sums.count, cells.sums.label, pred)]
            ).astype(np.float64)
            log_odds += tree.leaf_value[node]
            finished.append(with_node_sums(tree, sums))
    return finished


def with_node_sums(tree: CalibrationTree, sums: FloatArray) -> CalibrationTree:
    """The tree with its terminal nodes' count, label and prediction sums, which are added up towards the root."""
    leaf_value = tree.leaf_value.copy()
    _sum_upwards(tree.parents, leaf_value, sums)
    count, label, pred = (rounded(sums[:, column]) for column in range(3))
    return replace(tree, leaf_value=rounded(leaf_value), count=count, label=label, pred=pred)


@kernel
def _sum_upwards(parent: npt.NDArray[np.int64], leaf_value: FloatArray, sums: FloatArray) -> None:
    """Add the sums of children, whose numbers are higher, to their parent; its value becomes the mean of theirs."""
    weight = np.zeros(len(parent))
    weighted = np.zeros(len(parent))
    for node in range(len(parent) - 1, -1, -1):
        if weight[node] > 0.0:
            leaf_value[node] = weighted[node] / weight[node]
        above = parent[node]
        if above >= 0:
            weight[above] += sums[node, 0]
            weighted[above] += leaf_value[node] * sums[node, 0]
            for column in range(sums.shape[1]):
                sums[above, column] += sums[node, column]


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
        q = probability_of(log_odds[i])
        g[group[i]] += label[i] - weight[i] * q
        h[group[i]] += weight[i] * q * (1.0 - q)
    return g, h


@kernel
def move(log_odds: FloatArray, change: FloatArray, group: Groups) -> None:
    """Add its group's change to every row's log-odds."""
    for i in range(len(log_odds)):
        log_odds[i] += change[group[i]]
