"""Growth of a paper tree, level by level: all nodes of a level need one pass over the data.

The grower asks a source for sums and tells it where rows go, nothing else, so that the rows may lie in memory or in
a database.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mbct.binning.code_offsets import code_offsets
from mbct.stats.closed_form import mvce_of_sums
from mbct.tree.histogram import COUNT, LABEL, PRED
from mbct.tree.model import CalibrationTree, IntArray, rounded
from mbct.tree.multiway import MultiwaySplit, best_feature, losses_of_splits, multiplier_of, residuals_after
from mbct.validation import FloatArray

_MOST_SUMS_AT_ONCE = 40_000_000
"""Histogram entries asked for in one request, 320 MB."""


class LevelSource(Protocol):
    """Rows that can be summed by (node, feature, code) and moved down the tree."""

    n_codes: tuple[int, ...]

    def level_sums(self, nodes: list[int]) -> FloatArray:
        """Five sums of each node, feature and code, shape (nodes, codes, 5)."""

    def move(self, feature: IntArray, table_start: npt.NDArray[np.int64], table: IntArray) -> None:
        """Send rows on from the nodes that were split."""

    def multiply(self, multiplier: FloatArray) -> None:
        """Multiply each row's prediction by its node's multiplier; back to the root."""


class SplitJudge(Protocol):
    """A loss computed from rows, for the losses that have no closed form."""

    def node_loss(self, node: int, multiplier: float) -> float:
        """Loss of a node under one multiplier."""

    def split_loss(self, node: int, split: MultiwaySplit) -> float:
        """Loss of a node after a split."""

    def tree_loss(self, tree: CalibrationTree) -> float:
        """Loss of all rows under a tree."""


@dataclass(frozen=True)
class PaperGrowth:
    """When a node is split: depth, β (``min_bin_size``), and the loss's bin size and norm."""

    max_depth: int
    min_bin_size: float
    bin_size: float
    norm: float = 2.0


@dataclass(frozen=True)
class GrownSplit:
    """A split that happened, for the trace."""

    node: int
    depth: int
    feature: int
    count: float
    n_children: int
    loss_before: float
    loss_after: float
    tree_loss: float


@dataclass
class _Growing:
    """The tree under construction; what ends at a node is kept in ``ending`` as (Σd, Σd²), their sum in ``total``."""

    feature: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    table: list[IntArray] = field(default_factory=list)
    multiplier: list[float] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    sums: list[FloatArray] = field(default_factory=list)
    ending: list[tuple[float, float]] = field(default_factory=list)
    total: FloatArray = field(default_factory=lambda: np.zeros(2))
    table_size: int = 0

    def add(self, sums: FloatArray, multiplier: float, depth: int) -> int:
        """A new leaf."""
        self.feature.append(-1)
        self.start.append(0)
        self.multiplier.append(multiplier)
        self.depth.append(depth)
        self.sums.append(sums)
        self.ending.append(residuals_after(sums.reshape(1, -1), multiplier))
        self.total += self.ending[-1]
        return len(self.feature) - 1

    def split(self, node: int, split: MultiwaySplit) -> list[int]:
        """Give a node its children."""
        first = len(self.feature)
        self.feature[node] = split.feature
        self.start[node] = self.table_size
        self.table.append(split.table(first))
        self.table_size += len(split.group)
        self.total -= self.ending[node]
        self.ending[node] = residuals_after(split.sums[:1], self.multiplier[node])
        self.total += self.ending[node]
        depth = self.depth[node] + 1
        return [self.add(s, k, depth) for s, k in zip(split.sums[1:], split.multipliers[1:].tolist(), strict=True)]

    def routing(self) -> tuple[IntArray, npt.NDArray[np.int64], IntArray]:
        """Feature, table start and table of all nodes so far."""
        table = np.concatenate(self.table) if self.table else np.empty(0, np.int32)
        return np.array(self.feature, np.int32), np.array(self.start, np.int64), table

    def tree_loss(self, growth: PaperGrowth) -> float:
        """Closed-form MVCE of all rows."""
        residual, squared = self.total.tolist()
        return mvce_of_sums(float(self.sums[0][COUNT]), residual, squared, growth.bin_size, growth.norm)

    def frozen(self) -> CalibrationTree:
        """The finished tree."""
        sums = np.array(self.sums)
        columns = (rounded(sums[:, column]) for column in (COUNT, LABEL, PRED))
        return CalibrationTree(*self.routing(), np.array(self.multiplier), *columns)


def grow_level_wise(
    source: LevelSource,
    growth: PaperGrowth,
    judge: SplitJudge | None = None,
    on_split: Callable[[GrownSplit], None] = lambda _: None,
) -> tuple[CalibrationTree, float]:
    """Grow one tree; returns it with the loss of all rows under it. Rows are left at their leaves."""
    offset = code_offsets(source.n_codes)
    growing = _Growing()
    at_root = source.level_sums([0])
    root = at_root[0, : offset[1]].sum(axis=0)
    growing.add(root, _rounded(multiplier_of(root[LABEL], root[PRED])), 0)
    level = [0]
    for depth in range(growth.max_depth):
        level = [node for node in level if growing.sums[node][COUNT] >= growth.min_bin_size * (1.0 - 1e-12)]
        below: list[int] = []
        most = max(_MOST_SUMS_AT_ONCE // (5 * int(offset[-1])), 1)
        for chunk in range(0, len(level), most):
            nodes = level[chunk : chunk + most]
            histograms = at_root if depth == 0 else source.level_sums(nodes)
            for node, histogram in zip(nodes, histograms, strict=True):
                split = _choose(node, histogram, offset, growing, growth, judge)
                if split is None:
                    continue
                chosen, before, after = split
                below.extend(growing.split(node, chosen))
                loss = growing.tree_loss(growth) if judge is None else judge.tree_loss(growing.frozen())
                count = float(growing.sums[node][COUNT])
                on_split(GrownSplit(node, depth, chosen.feature, count, chosen.n_children, before, after, loss))
        if not below:
            break
        source.move(*growing.routing())
        level = below
    tree = growing.frozen()
    return tree, growing.tree_loss(growth) if judge is None else judge.tree_loss(tree)


def _choose(
    node: int,
    histogram: FloatArray,
    offset: npt.NDArray[np.int64],
    growing: _Growing,
    growth: PaperGrowth,
    judge: SplitJudge | None,
) -> tuple[MultiwaySplit, float, float] | None:
    """The split of least local loss, with the loss before and after; None where the loss would not fall."""
    sums, k = growing.sums[node], growing.multiplier[node]
    losses = losses_of_splits(histogram, offset, sums[COUNT], k, growth.min_bin_size, growth.bin_size, growth.norm)

    def split_by(j: int) -> MultiwaySplit:
        return MultiwaySplit.of(j, histogram[offset[j] : offset[j + 1]], k, growth.min_bin_size)

    if judge is None:
        residual, squared = residuals_after(sums.reshape(1, -1), k)
        before = mvce_of_sums(sums[COUNT], residual, squared, growth.bin_size, growth.norm)
    else:
        before = judge.node_loss(node, k)
        for j in np.flatnonzero(np.isfinite(losses)).tolist():
            losses[j] = judge.split_loss(node, split_by(j))
    feature = best_feature(losses)
    if feature < 0 or losses[feature] >= before * (1.0 - 1e-11):
        return None
    return split_by(feature), before, float(losses[feature])


def _rounded(value: float) -> float:
    return float(rounded(np.array([value]))[0])
