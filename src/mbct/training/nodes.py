"""Nodes of a tree under construction: their leaf values, their best cut, and the rows that they hold."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix
from mbct.model.tree import STOP, IntArray
from mbct.training.splitter import NO_SPLIT, clearly_above, gain_of, search_feature, shrunk_value
from mbct.validation import FloatArray

VALUE_LIMIT = 4.0
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


class GrownTree(NamedTuple):
    """A grown tree's arrays and the rows, with each node's range among them.

    ``intercept`` of each block that was taken out of the gradients; empty where rows are independent.
    """

    feature: IntArray
    table_start: npt.NDArray[np.int64]
    table: IntArray
    leaf_value: FloatArray
    rows: npt.NDArray[np.int32]
    begin: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    intercept: FloatArray


class Nodes(NamedTuple):
    """Nodes under construction, as columns; ``side`` holds each node's best cut."""

    feature: IntArray
    left: IntArray
    leaf_value: FloatArray
    half_values: FloatArray
    gain: FloatArray
    curvature: FloatArray
    begin: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    slot: IntArray
    score: FloatArray
    candidate: IntArray
    side: npt.NDArray[np.uint8]


@kernel
def allocate(n_nodes: int, n_codes: int) -> Nodes:
    """Empty nodes."""
    return Nodes(
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
def measure(nodes: Nodes, node: int, parent: int, histogram: FloatArray, growth: TreeOptions) -> None:
    """Value of a node, its values without each half, and its gain unsplit, from the histogram of any one feature."""
    g = np.zeros(2)
    h = np.zeros(2)
    for c in range(len(histogram)):
        for half in range(2):
            g[half] += histogram[c, 2 * half]
            h[half] += histogram[c, 2 * half + 1]
    above = nodes.leaf_value[parent] if parent >= 0 else 0.0
    value = shrunk_value(g[0] + g[1], h[0] + h[1], above, growth.parent_shrinkage)
    nodes.leaf_value[node] = value
    nodes.curvature[node] = h[0] + h[1]
    if not growth.cross_fitted:
        nodes.gain[node] = gain_of(value, g[0] + g[1], h[0] + h[1], growth.rate)
        return
    nodes.gain[node] = 0.0
    for half in range(2):
        above_half = nodes.half_values[parent, half] if parent >= 0 else 0.0
        k = shrunk_value(g[half], h[half], above_half, growth.parent_shrinkage)
        nodes.half_values[node, half] = k
        nodes.gain[node] += gain_of(k, g[1 - half], h[1 - half], growth.rate)


@kernel
def _consider(
    nodes: Nodes,
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
        nodes.leaf_value[node],
        nodes.half_values[node],
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
        # Loops, as slices would have the code that words their errors compiled too, for seconds.
        for code in range(len(histogram)):
            nodes.side[node, code] = scratch[code]


@kernel
def search(
    nodes: Nodes,
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
def most_promising(nodes: Nodes, n_nodes: int) -> int:
    """The leaf whose best cut gains most; −1 where none can be cut."""
    best = -1
    for node in range(n_nodes):
        open_leaf = nodes.feature[node] < 0 and nodes.candidate[node] >= 0
        if open_leaf and (best < 0 or clearly_above(nodes.score[node], nodes.score[best])):
            best = node
    return best


@kernel
def partition(
    nodes: Nodes, node: int, codes: CodeMatrix, rows: npt.NDArray[np.int32], buffer: npt.NDArray[np.int32]
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
    for i in range(held):
        rows[write + i] = buffer[i]
    return int(write)


@kernel
def freeze(nodes: Nodes, n_nodes: int, rows: npt.NDArray[np.int32], offset: npt.NDArray[np.int64]) -> GrownTree:
    """The finished tree."""
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
    value = np.minimum(np.maximum(nodes.leaf_value[:n_nodes], -VALUE_LIMIT), VALUE_LIMIT)
    return GrownTree(
        nodes.feature[:n_nodes].copy(),
        start,
        table,
        value,
        rows,
        nodes.begin[:n_nodes].copy(),
        nodes.end[:n_nodes].copy(),
        np.empty(0),
    )
