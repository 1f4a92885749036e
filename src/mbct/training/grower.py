"""Best-first growth of a binary tree by cross-fitted gain, as one kernel that lets other threads run."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix, code_offsets
from mbct.model.masks import stops_of_rows
from mbct.model.tree import STOP, CalibrationTree, IntArray, rounded
from mbct.stats.logodds import sigmoid
from mbct.training.block_intercepts import NO_INTERCEPTS, gradients_within_blocks
from mbct.training.cells import Cells
from mbct.training.folds import BinnedRows, RowNumbers
from mbct.training.gradients import GradientArray, GrownTree, add_rows, gradients, subtract
from mbct.training.splitter import NO_SPLIT, clearly_above, gain_of, search_feature, shrunk_step
from mbct.validation import FloatArray

STEP_LIMIT = 4.0
"""No leaf moves the log-odds by more than this before the rate is applied."""


class TreeOptions(NamedTuple):
    """How one tree grows: leaves, shrinkage τ to the parent, least curvature of a child, learning rate η.

    ``cross_fitted``: features are ranked by their gain on the half of the rows that did not choose the cut.

    ``free_values``: numbers of at most so many values are cut at a threshold or, where that gains more, into any two
    sets: days, hours and codes of regions are numbers by their type, but what happens need not follow their order.
    """

    max_leaves: int = 15
    parent_shrinkage: float = 10.0
    min_curvature: float = 3.0
    rate: float = 0.1
    cross_fitted: bool = True
    free_values: int = 32


class _Nodes(NamedTuple):
    """Nodes under construction, as columns; ``side`` holds each node's best cut."""

    feature: IntArray
    left: IntArray
    step: FloatArray
    half_step: FloatArray
    gain: FloatArray
    curvature: FloatArray
    begin: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    slot: IntArray
    score: FloatArray
    candidate: IntArray
    side: npt.NDArray[np.uint8]


@kernel
def _allocate(n_nodes: int, n_codes: int) -> _Nodes:
    return _Nodes(
        np.full(n_nodes, -1, np.int32),
        np.zeros(n_nodes, np.int32),
        np.zeros(n_nodes),
        np.zeros((n_nodes, 2)),
        np.zeros(n_nodes),
        np.zeros(n_nodes),
        np.zeros(n_nodes, np.int64),
        np.zeros(n_nodes, np.int64),
        np.zeros(n_nodes, np.int32),
        np.full(n_nodes, NO_SPLIT),
        np.full(n_nodes, -1, np.int32),
        np.zeros((n_nodes, n_codes), np.uint8),
    )


@kernel
def _measure(nodes: _Nodes, node: int, parent: int, histogram: FloatArray, growth: TreeOptions) -> None:
    """Step of a node, its steps without each half, and its gain unsplit, from the histogram of any one feature."""
    g = np.zeros(2)
    h = np.zeros(2)
    for c in range(len(histogram)):
        for half in range(2):
            g[half] += histogram[c, 2 * half]
            h[half] += histogram[c, 2 * half + 1]
    above = nodes.step[parent] if parent >= 0 else 0.0
    step = shrunk_step(g[0] + g[1], h[0] + h[1], above, growth.parent_shrinkage)
    nodes.step[node] = step
    nodes.curvature[node] = h[0] + h[1]
    if not growth.cross_fitted:
        nodes.gain[node] = gain_of(step, g[0] + g[1], h[0] + h[1], growth.rate)
        return
    nodes.gain[node] = 0.0
    for half in range(2):
        above_half = nodes.half_step[parent, half] if parent >= 0 else 0.0
        k = shrunk_step(g[half], h[half], above_half, growth.parent_shrinkage)
        nodes.half_step[node, half] = k
        nodes.gain[node] += gain_of(k, g[1 - half], h[1 - half], growth.rate)


@kernel
def _consider(
    nodes: _Nodes,
    node: int,
    feature: int,
    by_order: bool,
    histogram: FloatArray,
    growth: TreeOptions,
    scratch: npt.NDArray[np.uint8],
) -> None:
    """Keep the best cut of one feature, at a threshold or into any two sets, where it beats the node's best so far."""
    score = search_feature(
        histogram,
        by_order,
        growth.cross_fitted,
        nodes.step[node],
        nodes.half_step[node],
        growth.parent_shrinkage,
        growth.min_curvature,
        growth.rate,
        scratch,
    )
    if score <= NO_SPLIT:
        return
    score -= nodes.gain[node]
    if nodes.candidate[node] < 0 or clearly_above(score, nodes.score[node]):
        nodes.score[node] = score
        nodes.candidate[node] = feature
        nodes.side[node, : len(histogram)] = scratch[: len(histogram)]


@kernel
def _search(
    nodes: _Nodes,
    node: int,
    histogram: FloatArray,
    features: npt.NDArray[np.int64],
    offset: npt.NDArray[np.int64],
    ordered: npt.NDArray[np.bool_],
    growth: TreeOptions,
    scratch: npt.NDArray[np.uint8],
) -> None:
    """Best feature and cut of a node."""
    if nodes.curvature[node] < 2.0 * growth.min_curvature:
        return
    for j in features:
        part = histogram[offset[j] : offset[j + 1]]
        if ordered[j]:
            _consider(nodes, node, j, True, part, growth, scratch)
        # two values have one cut, and the last two codes stand for missing and unseen ones
        if not ordered[j] or 2 < len(part) - 2 <= growth.free_values:
            _consider(nodes, node, j, False, part, growth, scratch)


@kernel
def _most_promising(nodes: _Nodes, n_nodes: int) -> int:
    best = -1
    for node in range(n_nodes):
        open_leaf = nodes.feature[node] < 0 and nodes.candidate[node] >= 0
        if open_leaf and (best < 0 or clearly_above(nodes.score[node], nodes.score[best])):
            best = node
    return best


@kernel
def _partition(
    nodes: _Nodes, node: int, codes: CodeMatrix, rows: npt.NDArray[np.int32], buffer: npt.NDArray[np.int32]
) -> int:
    """Put the node's rows of the left side first, keeping their order; returns where the right side begins.

    Every row is written to both sides and counted on one: a branch that no processor can guess would cost five times
    as much.
    """
    feature = np.uint64(nodes.candidate[node])
    side = nodes.side[node]
    write = nodes.begin[node]
    held = 0
    for t in range(nodes.begin[node], nodes.end[node]):
        i = rows[t]
        right = int(side[np.uint64(codes[np.uint64(i), feature])] != 0)
        rows[write] = i
        buffer[held] = i
        write += 1 - right
        held += right
    rows[write : write + held] = buffer[:held]
    return int(write)


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
        gradients(train_rows, log_odds, rows.weight, label, seed, options.cross_fitted, rows.atomic, gradient)
    else:
        half = (np.random.default_rng(seed).permutation(len(blocks)) % 2).astype(np.uint8)
        half *= options.cross_fitted
        intercept = gradients_within_blocks(train_rows, log_odds, rows.weight, label, blocks.number, half, gradient)
    grown = _grow(rows.codes, gradient, train_rows, rows.offset, rows.ordered, features, options)
    return grown._replace(intercept=intercept)


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
    nodes = _allocate(2 * max_leaves, widest)
    histograms = np.empty((max_leaves, offset[-1], 4))
    scratch = np.empty(widest, np.uint8)
    buffer = np.empty(len(rows), np.int32)
    first, last = offset[features[0]], offset[features[0] + 1]
    nodes.end[0] = len(rows)
    add_rows(codes, gradient, features, rows, offset, histograms[0])
    _measure(nodes, 0, -1, histograms[0, first:last], growth)
    if max_leaves > 1:
        _search(nodes, 0, histograms[0], features, offset, ordered, growth, scratch)
    n_nodes = 1
    n_leaves = 1
    while n_leaves < max_leaves:
        node = _most_promising(nodes, n_nodes)
        if node < 0 or (not growth.cross_fitted and nodes.score[node] <= 0.0):
            break
        middle = _partition(nodes, node, codes, rows, buffer)
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
            _measure(nodes, child, node, histogram[first:last], growth)
            if n_leaves < max_leaves:
                _search(nodes, child, histogram, features, offset, ordered, growth, scratch)
    return _freeze(nodes, n_nodes, rows, offset)


@kernel
def _freeze(nodes: _Nodes, n_nodes: int, rows: npt.NDArray[np.int32], offset: npt.NDArray[np.int64]) -> GrownTree:
    size = 0
    for node in range(n_nodes):
        if nodes.feature[node] >= 0:
            size += offset[nodes.feature[node] + 1] - offset[nodes.feature[node]]
    table = np.empty(size, np.int32)
    start = np.zeros(n_nodes, np.int64)
    filled = 0
    for node in range(n_nodes):
        j = nodes.feature[node]
        start[node] = filled
        if j < 0:
            continue
        for c in range(offset[j + 1] - offset[j]):
            side = nodes.side[node, c]
            table[filled] = STOP if side == 2 else nodes.left[node] + side
            filled += 1
    step = np.minimum(np.maximum(nodes.step[:n_nodes], -STEP_LIMIT), STEP_LIMIT)
    return GrownTree(
        nodes.feature[:n_nodes].copy(),
        start,
        table,
        step,
        rows,
        nodes.begin[:n_nodes].copy(),
        nodes.end[:n_nodes].copy(),
        np.empty(0),
    )


def frozen_tree(tree: GrownTree, step: FloatArray, sums: FloatArray) -> CalibrationTree:
    """The grown tree as plain data, with the steps that are applied and the sums of its nodes."""
    columns = (rounded(sums[:, column]) for column in range(3))
    return CalibrationTree(tree.feature, tree.table_start, tree.table, step, *columns)


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
