"""Best-first growth of a tree whose rows are elsewhere: histograms come by request, many nodes at a time.

The tree is that of :func:`mbct.training.grower.grow_tree`. That grower splits one leaf after the other; here each
request costs a pass over all rows. So nodes are split ahead: every node that best-first growth may still come to is
asked for at once, and a tree takes about as many passes as it has levels. What was split in vain is left out.
"""

from collections.abc import Generator
from typing import Any, NamedTuple

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
    ahead = _NodesAhead(features, offset, ordered, growth)
    [histogram] = yield ahead.request({})
    ahead.add(-1, histogram)
    order = ahead.best_first()
    while unknown := [node for node in order.split if node not in ahead.left]:
        smaller = {node: ahead.left_is_small(node) for node in unknown}
        found = yield ahead.request(smaller)
        for node, fresh in zip(unknown, found, strict=True):
            ahead.split(node, fresh, left_is_small=smaller[node])
        order = ahead.best_first()
        ahead.forget_all_but(order.nodes)
    return ahead.frozen(order)


class _Order(NamedTuple):
    """Nodes in the order in which best-first growth numbers them, and those that it splits."""

    nodes: list[int]
    split: list[int]


class _NodesAhead:
    """Nodes with their best cuts, split further than the tree may be; ``left`` numbers the first child of each."""

    def __init__(
        self,
        features: npt.NDArray[np.int64],
        offset: npt.NDArray[np.int64],
        ordered: npt.NDArray[np.bool_],
        growth: TreeOptions,
    ):
        self.features, self.offset, self.ordered, self.growth = features, offset, ordered, growth
        self.width = int(np.diff(offset).max())
        self.nodes = allocate(2 * growth.max_leaves, self.width)
        self.n_nodes = 0
        self.left: dict[int, int] = {}
        self.histograms: dict[int, FloatArray] = {}

    def add(self, parent: int, histogram: FloatArray) -> None:
        """One more node, with its value and best cut."""
        if self.n_nodes == len(self.nodes.feature):
            pairs: list[Any] = list(zip(self.nodes, allocate(self.n_nodes, self.width), strict=True))
            self.nodes = Nodes._make(map(np.concatenate, pairs))
        node, scratch = self.n_nodes, np.empty(self.width, np.uint8)
        own = histogram[self.offset[self.features[0]] : self.offset[self.features[0] + 1]]
        measure(self.nodes, node, parent, own, self.growth)
        search(self.nodes, node, histogram, self.features, self.offset, self.ordered, self.growth, scratch)
        self.histograms[node] = histogram
        self.n_nodes += 1

    def split(self, node: int, fresh: FloatArray, *, left_is_small: bool) -> None:
        """Add both children of a node, given the histogram of the smaller one."""
        kept = self.histograms.pop(node)
        subtract(kept, fresh, self.features, self.offset)
        self.left[node] = self.n_nodes
        for histogram in (fresh, kept) if left_is_small else (kept, fresh):
            self.add(node, histogram)

    def left_is_small(self, node: int) -> bool:
        """Whether less curvature goes left than right: the other child is the rest."""
        j = self.nodes.candidate[node]
        curvature = self.histograms[node][self.offset[j] : self.offset[j + 1], 1::2].sum(axis=1)
        right = self.nodes.side[node, : len(curvature)] != 0
        return bool(curvature[~right].sum() <= curvature[right].sum())

    def best_first(self) -> _Order:
        """The order of growth, as if nodes whose children are not known yet had none that can be split.

        Children that turn out to be split only push others back, so that what is behind here stays behind.
        """
        order = _Order([0], [])
        is_open = [True]
        while len(order.split) < self.growth.max_leaves - 1:
            reached = np.array(order.nodes)
            feature = np.where(is_open, -1, 0).astype(np.int32)
            score, candidate = self.nodes.score[reached], self.nodes.candidate[reached]
            numbered = self.nodes._replace(feature=feature, score=score, candidate=candidate)
            best = int(most_promising(numbered, len(reached)))
            if best < 0 or (not self.growth.cross_fitted and score[best] <= 0.0):
                break
            is_open[best] = False
            node = order.nodes[best]
            order.split.append(node)
            if node in self.left:
                order.nodes.extend((self.left[node], self.left[node] + 1))
                is_open.extend((True, True))
        return order

    def forget_all_but(self, nodes: list[int]) -> None:
        """Free the histograms of nodes that growth will not come to."""
        self.histograms = {node: self.histograms[node] for node in nodes if node in self.histograms}

    def request(self, smaller: dict[int, bool]) -> HistogramRequest:
        """The smaller children of some nodes, in the tree of all that are split; without any, the root."""
        children = dict(zip(smaller, range(self.n_nodes, self.n_nodes + 2 * len(smaller), 2), strict=True))
        tree = self._frozen(list(range(max(self.n_nodes, 1))), self.left | children)
        wanted = (child + (not smaller[node]) for node, child in children.items())
        return HistogramRequest(tree.feature, tree.table_start, tree.table, tuple(wanted) or (0,), self.features)

    def frozen(self, order: _Order) -> GrownTree:
        """The tree of the nodes that growth comes to, in its order."""
        number = {node: place for place, node in enumerate(order.nodes)}
        return self._frozen(order.nodes, {number[node]: number[self.left[node]] for node in order.split})

    def _frozen(self, chosen: list[int], left: dict[int, int]) -> GrownTree:
        """A tree of chosen nodes; ``left`` numbers the first child of those that are split, in the tree's numbers."""
        n_nodes = max(len(chosen), max(left.values(), default=-1) + 2)
        tree = allocate(n_nodes, self.width)
        tree.leaf_value[: len(chosen)] = self.nodes.leaf_value[chosen]
        tree.side[: len(chosen)] = self.nodes.side[chosen]
        for node, child in left.items():
            tree.feature[node], tree.left[node] = self.nodes.candidate[chosen[node]], child
        return freeze(tree, n_nodes, _NO_ROWS, self.offset)
