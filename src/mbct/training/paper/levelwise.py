"""Growth of a paper tree, level by level: all nodes of a level need one pass over the data.

The grower asks a source for sums and tells it where rows go, nothing else, so that the rows may lie in memory or in
a database.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from mbct.model.bins import code_offsets
from mbct.model.tree import CalibrationTree, IntArray, rounded
from mbct.stats.multi_view import closed_form_mvce
from mbct.training.paper.histogram import COUNT, LABEL, N_SUMS, PRED, Positions
from mbct.training.paper.multiway import (
    MultiwaySplits,
    best_features,
    losses_of_level,
    multipliers_of,
    residuals_of_sets,
)
from mbct.validation import FloatArray


class LevelSource(Protocol):
    """Rows that can be summed by (node, feature, code) and moved down the tree."""

    n_codes: tuple[int, ...]
    most_sums_at_once: int
    """How many sums to ask for in one request."""

    def level_sums(self, nodes: list[int]) -> FloatArray:
        """Five sums of each node, feature and code, shape (nodes, codes, 5), which hold until the next request."""

    def move(self, feature: IntArray, table_start: npt.NDArray[np.int64], table: IntArray) -> None:
        """Send rows on from the nodes that were split."""

    def multiply(self, multiplier: FloatArray) -> None:
        """Multiply each row's prediction by its node's multiplier; back to the root."""


class SplitEvaluator(Protocol):
    """A loss computed from rows, for the losses that have no closed form."""

    def node_loss(self, node: int, multiplier: float) -> float:
        """Loss of a node under one multiplier."""

    def split_loss(self, node: int, split: MultiwaySplits) -> float:
        """Loss of a node after its only split."""

    def tree_loss(self, tree: CalibrationTree) -> float:
        """Loss of all rows under a tree."""


@dataclass(frozen=True)
class PaperGrowth:
    """When a node is split: depth, β (``min_bin_size``), and the loss's bin size."""

    max_depth: int
    min_bin_size: float
    bin_size: float


class GrownSplit(NamedTuple):
    """A split that happened, for the trace."""

    node: int
    depth: int
    feature: int
    weight: float
    n_children: int
    loss_before: float
    loss_after: float
    tree_loss: float


class _Growing:
    """The tree under construction; what ends at a node is kept in ``ending`` as (Σd, Σd²), their sum in ``total``."""

    def __init__(self, root: FloatArray):
        self.feature = np.full(1, -1, np.int32)
        self.start = np.zeros(1, np.int64)
        self.table = np.empty(0, np.int32)
        self.sums = root.reshape(1, -1)
        self.multiplier = rounded(multipliers_of(self.sums))
        self.ending = residuals_of_sets(self.sums, self.multiplier)
        self.total = self.ending[0].copy()

    def split(self, nodes: Positions, splits: MultiwaySplits) -> FloatArray:
        """Give nodes their children; returns (Σd, Σd²) of all rows after each split."""
        stays = splits.first
        first_child = len(self.feature) + np.cumsum(splits.n_children) - splits.n_children
        self.feature[nodes] = splits.feature
        self.start[nodes] = len(self.table) + np.cumsum(splits.n_codes) - splits.n_codes
        self.table = np.concatenate([self.table, splits.tables(first_child)])
        ending = residuals_of_sets(splits.sums, splits.multipliers)
        changes = np.add.reduceat(ending, stays, axis=0) - self.ending[nodes] if len(nodes) else np.empty((0, 2))
        totals = np.asarray(self.total + np.cumsum(changes, axis=0))
        self.total = self.total + changes.sum(axis=0)
        self.ending[nodes] = ending[stays]
        self._add_leaves(splits, np.delete(np.arange(len(ending)), stays), ending)
        return totals

    def _add_leaves(self, splits: MultiwaySplits, entries: Positions, ending: FloatArray) -> None:
        self.feature = np.concatenate([self.feature, np.full(len(entries), -1, np.int32)])
        self.start = np.concatenate([self.start, np.zeros(len(entries), np.int64)])
        self.multiplier = np.concatenate([self.multiplier, splits.multipliers[entries]])
        self.sums = np.concatenate([self.sums, splits.sums[entries]])
        self.ending = np.concatenate([self.ending, ending[entries]])

    def routing(self) -> tuple[IntArray, Positions, IntArray]:
        """Feature, table start and table of all nodes so far."""
        return self.feature.copy(), self.start.copy(), self.table

    def losses(self, totals: FloatArray, growth: PaperGrowth) -> list[float]:
        """Closed-form MVCE of all rows, from their (Σd, Σd²) at one or more times."""
        residual, squared = np.atleast_2d(totals).T
        count = np.full(len(residual), self.sums[0, COUNT])
        found: list[float] = closed_form_mvce(count, residual, squared, growth.bin_size).tolist()
        return found

    def frozen(self) -> CalibrationTree:
        """The finished tree."""
        columns = (rounded(self.sums[:, column]) for column in (COUNT, LABEL, PRED))
        return CalibrationTree(*self.routing(), self.multiplier.copy(), *columns)


def grow_level_wise(
    source: LevelSource,
    growth: PaperGrowth,
    evaluator: SplitEvaluator | None = None,
    on_split: Callable[[GrownSplit], None] = lambda _: None,
) -> tuple[CalibrationTree, float]:
    """Grow one tree; returns it with the loss of all rows under it. Rows are left at their leaves."""
    offset = code_offsets(source.n_codes)
    at_root = source.level_sums([0])
    growing = _Growing(at_root[0, : offset[1]].sum(axis=0))
    level = np.zeros(1, np.int64)
    for depth in range(growth.max_depth):
        level = level[growing.sums[level, COUNT] >= growth.min_bin_size * (1.0 - 1e-12)]
        n_before = len(growing.feature)
        most = max(source.most_sums_at_once // (N_SUMS * int(offset[-1])), 1)
        for chunk in range(0, len(level), most):
            nodes = level[chunk : chunk + most]
            histograms = at_root if depth == 0 else source.level_sums(nodes.tolist())
            for split in _split_level(nodes, depth, histograms, offset, growing, growth, evaluator):
                on_split(split)
        level = np.arange(n_before, len(growing.feature))
        if not len(level):
            break
        source.move(*growing.routing())
    tree = growing.frozen()
    return tree, growing.losses(growing.total, growth)[0] if evaluator is None else evaluator.tree_loss(tree)


def _split_level(
    nodes: Positions,
    depth: int,
    histograms: FloatArray,
    offset: Positions,
    growing: _Growing,
    growth: PaperGrowth,
    evaluator: SplitEvaluator | None,
) -> Iterator[GrownSplit]:
    """Split each node whose local loss falls by the feature that leaves the least."""
    multipliers = growing.multiplier[nodes]
    best, before, after = _best_features(nodes, histograms, offset, growing, growth, evaluator)
    # An evaluator sees the tree after each split, the closed form follows from sums.
    parts = [slice(None)] if evaluator is None else [slice(i, i + 1) for i in np.flatnonzero(best >= 0).tolist()]
    for part in parts:
        splits = MultiwaySplits.of(histograms[part], offset, best[part], multipliers[part], growth.min_bin_size)
        split_nodes = nodes[part][splits.slot]
        totals = growing.split(split_nodes, splits)
        losses = growing.losses(totals, growth) if evaluator is None else [evaluator.tree_loss(growing.frozen())]
        yield from map(
            GrownSplit,
            split_nodes.tolist(),
            repeat(depth),
            splits.feature.tolist(),
            growing.sums[split_nodes, COUNT].tolist(),
            splits.n_children.tolist(),
            before[part][splits.slot].tolist(),
            after[part][splits.slot].tolist(),
            losses,
        )


def _best_features(
    nodes: Positions,
    histograms: FloatArray,
    offset: Positions,
    growing: _Growing,
    growth: PaperGrowth,
    evaluator: SplitEvaluator | None,
) -> tuple[Positions, FloatArray, FloatArray]:
    """The feature to split each node by, −1 where its loss would not fall, and the loss before and after."""
    multipliers = growing.multiplier[nodes]
    sums = growing.sums[nodes]
    before, losses = losses_of_level(histograms, offset, sums, multipliers, growth.min_bin_size, growth.bin_size)
    if evaluator is not None:
        before = np.array(
            [evaluator.node_loss(*item) for item in zip(nodes.tolist(), multipliers.tolist(), strict=True)]
        )
        for slot, j in np.argwhere(np.isfinite(losses)).tolist():
            one = slice(slot, slot + 1)
            split = MultiwaySplits.of(histograms[one], offset, np.array([j]), multipliers[one], growth.min_bin_size)
            losses[slot, j] = evaluator.split_loss(int(nodes[slot]), split)
    best = best_features(losses)
    after = np.where(best < 0, np.inf, losses[np.arange(len(losses)), best])
    return np.where(after < before * (1.0 - 1e-11), best, -1), before, after
