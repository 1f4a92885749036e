"""Best-first growth of a tree whose rows are elsewhere: histograms come by request, many nodes at a time.

The tree is that of :func:`mbct.training.grower.grow_tree`. That grower splits one leaf after the other; here each
request costs a pass over all rows, so that the children of every open leaf that may still be split are asked for at
once. A tree then takes about as many passes as it has levels.
"""

from collections.abc import Generator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mbct.model.tree import IntArray
from mbct.training.nodes import GrownTree, Nodes, TreeOptions, allocate, freeze, measure, most_promising, search
from mbct.training.splitter import subtract
from mbct.validation import FloatArray

_NO_ROWS = np.empty(0, dtype=np.int32)


class HistogramRequest(NamedTuple):
    """Terminal ``nodes`` of a tree whose histograms are wanted, in the chosen features."""

    feature: IntArray
    table_start: npt.NDArray[np.int64]
    table: IntArray
    nodes: tuple[int, ...]
    features: npt.NDArray[np.int64]


def request_tree(
    features: npt.NDArray[np.int64], offset: npt.NDArray[np.int64], ordered: npt.NDArray[np.bool_], growth: TreeOptions
) -> Generator[HistogramRequest, FloatArray, GrownTree]:
    """Grow a tree; asks for histograms of shape (nodes, codes, 4), and finds a tree without rows."""
    nodes = allocate(2 * growth.max_leaves, int(np.diff(offset).max()))
    scratch = np.empty(nodes.side.shape[1], np.uint8)
    own = slice(offset[features[0]], offset[features[0] + 1])

    def evaluate(node: int, parent: int, histogram: FloatArray, n_leaves: int) -> None:
        measure(nodes, node, parent, histogram[own], growth)
        if n_leaves < growth.max_leaves:
            search(nodes, node, histogram, features, offset, ordered, growth, scratch)

    [histogram] = yield _request(nodes, 1, {}, features, offset)
    histograms, smaller = {0: histogram}, dict[int, tuple[bool, FloatArray]]()
    evaluate(0, -1, histogram, 1)
    n_leaves = 1
    while n_leaves < growth.max_leaves:
        left = 2 * n_leaves - 1
        node = int(most_promising(nodes, left))
        if node < 0 or (not growth.cross_fitted and nodes.score[node] <= 0.0):
            break
        if node not in smaller:
            unknown = [leaf for leaf in _open_leaves(nodes, left, growth.max_leaves - n_leaves) if leaf not in smaller]
            sides = {leaf: _left_is_small(nodes, leaf, histograms[leaf], offset) for leaf in unknown}
            found = yield _request(nodes, left, sides, features, offset)
            smaller |= {leaf: (sides[leaf], fresh) for leaf, fresh in zip(unknown, found, strict=True)}
        left_is_small, fresh = smaller.pop(node)
        kept = histograms.pop(node)
        subtract(kept, fresh, features, offset)
        nodes.feature[node], nodes.left[node] = nodes.candidate[node], left
        n_leaves += 1
        for child, is_small in ((left, left_is_small), (left + 1, not left_is_small)):
            histograms[child] = fresh if is_small else kept
            evaluate(child, node, histograms[child], n_leaves)
    return freeze(nodes, 2 * n_leaves - 1, _NO_ROWS, offset)


def _open_leaves(nodes: Nodes, n_nodes: int, most: int) -> list[int]:
    """Leaves that can be split, the most promising first; no more than may still be."""
    can = np.flatnonzero((nodes.feature[:n_nodes] < 0) & (nodes.candidate[:n_nodes] >= 0))
    return [int(leaf) for leaf in can[np.argsort(-nodes.score[can], kind="stable")][:most]]


def _left_is_small(nodes: Nodes, leaf: int, histogram: FloatArray, offset: npt.NDArray[np.int64]) -> bool:
    """Whether less curvature goes left than right: only the smaller child is asked for, the other is the rest."""
    j = nodes.candidate[leaf]
    curvature = histogram[offset[j] : offset[j + 1], 1::2].sum(axis=1)
    right = nodes.side[leaf, : len(curvature)] != 0
    return bool(curvature[~right].sum() <= curvature[right].sum())


def _request(
    nodes: Nodes, n_nodes: int, sides: dict[int, bool], features: npt.NDArray[np.int64], offset: npt.NDArray[np.int64]
) -> HistogramRequest:
    """The tree with the leaves of ``sides`` split by their best cut, and their smaller children; else the root."""
    split = nodes._replace(feature=nodes.feature.copy(), left=nodes.left.copy())
    wanted = []
    for place, (leaf, left_is_small) in enumerate(sides.items()):
        split.feature[leaf], split.left[leaf] = nodes.candidate[leaf], n_nodes + 2 * place
        wanted.append(n_nodes + 2 * place + (not left_is_small))
    tree = freeze(split, n_nodes + 2 * len(sides), _NO_ROWS, offset)
    return HistogramRequest(tree.feature, tree.table_start, tree.table, tuple(wanted) or (0,), features)
