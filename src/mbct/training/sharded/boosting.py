"""Cross-fitted boosting of rows in shards: a round grows one tree for every fold, in a few passes over all shards.

A shard keeps the log-odds that its rows have reached under each fold's trees; they change once a round. What a pass
needs beside them, gradients and the node of each row, is calculated anew, which costs less than to store it.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from mbct.model.tree import CalibrationTree, IntArray, rounded, terminal_nodes_of_rows
from mbct.stats.probabilities import sigmoid
from mbct.training.binned_rows import BinnedRows, RowNumbers
from mbct.training.block_intercepts import NO_INTERCEPTS, block_intercepts, block_sums, within_blocks
from mbct.training.boosting import BoostingOptions, draw_tree, gradients_of_thread, rng_of_fold
from mbct.training.grower import frozen_tree, gradients, halves_of_blocks
from mbct.training.nodes import TreeOptions
from mbct.training.offsets import Offsets, answered_together
from mbct.training.sharded.growth import HistogramRequest, request_tree
from mbct.training.sharded.rows import Correction, Layout, ShardedRows
from mbct.training.sharded.shards import Columns, Totals
from mbct.training.splitter import GradientArray, add_rows
from mbct.validation import FloatArray

_REACHED = "reached"
"""Column of a shard: the log-odds that its rows have reached, a row for each fold."""


Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")


class _Halves(NamedTuple):
    """How a fold's gradients are split: by the seed, or of blocks by their intercepts and halves."""

    seed: np.uint64
    intercept: FloatArray
    half: npt.NDArray[np.uint8]


class ShardedBoosting:
    """The ensembles of all folds, grown together (see :class:`~mbct.training.boosting.Fold`).

    The rows that are held out stay in their shards. Where ensembles of several sizes grow in turns, the shards are
    brought back to where this one was.
    """

    held_out_rows: RowNumbers = np.empty(0, dtype=np.int32)
    log_odds: FloatArray = np.empty(0)

    def __init__(self, rows: ShardedRows, tree_options: TreeOptions, options: BoostingOptions, start: Offsets | None):
        self.rows = rows
        self.options = options
        self.tree_options = tree_options
        self.start = start
        n_folds = rows.layout.n_folds
        self.rngs = [rng_of_fold(options, fold, tree_options) for fold in range(n_folds)]
        self.trees: list[list[CalibrationTree]] = [[] for _ in range(n_folds)]

    def correction(self, n_trees: int | None = None) -> Correction:
        """That of the first trees of each fold, or of all."""
        return Correction(self.start, tuple(tuple(trees[:n_trees]) for trees in self.trees))

    def held_out_loss(self) -> float:
        """Summed log loss of the held-out rows, once the shards have the log-odds of these ensembles."""
        self.rows.reached_by = self
        return float(self.rows.update(_reach, self.correction())[0])

    def grow(self) -> float:
        """Add a tree to each fold; returns the summed log loss of the held-out rows."""
        if self.rows.reached_by is not self:
            self.held_out_loss()
        layout = self.rows.layout
        drawn = [draw_tree(rng, layout.usable, self.options) for rng in self.rngs]
        halves = self._halves([seed for _, seed in drawn])

        def histograms(requests: dict[int, HistogramRequest]) -> dict[int, FloatArray]:
            asked = {fold: (each, halves[fold]) for fold, each in requests.items()}
            found = self.rows.total_by_number(_histograms, asked, self.tree_options.cross_fitted)
            return dict(zip(requests, found, strict=True))

        growing = [request_tree(features, layout.offset, layout.ordered, self.tree_options) for features, _ in drawn]
        grown = answered_together(growing, histograms)
        steps = [rounded(tree.leaf_value * self.tree_options.rate) for tree in grown]
        nodes = [(tree.feature, tree.table_start, tree.table, step) for tree, step in zip(grown, steps, strict=True)]
        loss, *sums = self.rows.update(_settle, nodes)
        for fold, tree in enumerate(grown):
            frozen = frozen_tree(tree, steps[fold], sums[fold])
            for node in range(frozen.n_nodes - 1, 0, -1):
                sums[fold][frozen.parents[node]] += sums[fold][node]
            self.trees[fold].append(frozen_tree(tree, steps[fold], sums[fold]))
        return float(loss)

    def _halves(self, seeds: Sequence[np.uint64]) -> list[_Halves]:
        """How this round splits the gradients of each fold: one more pass where rows belong to blocks."""
        blocks = self.rows.layout.blocks
        if blocks is None:
            return [_Halves(seed, NO_INTERCEPTS, np.empty(0, dtype=np.uint8)) for seed in seeds]
        found = []
        for seed, (g, h) in zip(seeds, self.rows.total_by_number(_block_sums, len(blocks)), strict=True):
            mean, shock = block_intercepts(g, h)
            found.append(_Halves(seed, mean + shock, halves_of_blocks(len(blocks), seed, self.tree_options)))
        return found


def _loss(rows: BinnedRows, reached: FloatArray) -> float:
    return sum(rows.loss(rows.held_out_rows(fold), log_odds) for fold, log_odds in enumerate(reached))


def _reach(layout: Layout, correction: Correction, columns: Columns, _first: int) -> tuple[Columns, Totals]:
    """Log-odds of every row under each fold's correction."""
    rows = layout.rows(columns)
    reached = np.array([rows.log_odds + correction.step(fold, rows) for fold in range(layout.n_folds)])
    return {_REACHED: reached}, (_loss(rows, reached),)


def _block_sums(layout: Layout, n_blocks: int, columns: Columns, _first: int) -> tuple[Columns, Totals]:
    """G and H of each fold's training rows by block."""
    rows, gradient = layout.rows(columns), gradients_of_thread(len(columns["codes"]))

    def sums(fold: int, log_odds: FloatArray) -> FloatArray:
        own = rows.train_rows(fold)
        return np.array(block_sums(own, log_odds, rows.weight, rows.label, rows.block_numbers, n_blocks, gradient))

    return {}, tuple(sums(fold, log_odds) for fold, log_odds in enumerate(columns[_REACHED]))


def _histograms(
    layout: Layout,
    asked: Mapping[int, tuple[HistogramRequest, _Halves]],
    cross_fitted: bool,
    columns: Columns,
    first: int,
) -> tuple[Columns, Totals]:
    """Histograms of the nodes that each fold asks for."""
    rows, gradient = layout.rows(columns), gradients_of_thread(len(columns["codes"]))
    found = []
    for fold, (request, halves) in asked.items():
        own, log_odds = rows.train_rows(fold), columns[_REACHED][fold]
        if rows.blocks is None:
            gradients(own, log_odds, rows.weight, rows.label, halves.seed, cross_fitted, layout.atomic, first, gradient)
        else:
            number = rows.block_numbers
            block_sums(own, log_odds, rows.weight, rows.label, number, len(halves.half), gradient)
            within_blocks(own, halves.intercept, number, halves.half, gradient)
        found.append(_histograms_of_nodes(rows, own, gradient, request))
    return {}, tuple(found)


def _histograms_of_nodes(
    rows: BinnedRows, own: RowNumbers, gradient: GradientArray, request: HistogramRequest
) -> FloatArray:
    """Histograms of some terminal nodes, whose rows are brought together first."""
    tree = request.feature, request.table_start, request.table
    node = terminal_nodes_of_rows(rows.codes, own, *tree, rows.offset).astype(np.int16)
    order = np.argsort(node, kind="stable")
    own, begin = own[order], np.searchsorted(node[order], np.arange(len(request.feature) + 1))
    out = np.zeros((len(request.nodes), rows.offset[-1], 4))
    for place, k in enumerate(request.nodes):
        add_rows(rows.codes, gradient, request.features, own[begin[k] : begin[k + 1]], rows.offset, out[place])
    return out


def _settle(
    layout: Layout, trees: Sequence[tuple[IntArray, Any, IntArray, FloatArray]], columns: Columns, _first: int
) -> tuple[Columns, Totals]:
    """Move all rows by each fold's new tree; the held-out loss, and the sums of the training rows in each leaf."""
    rows, reached, sums = layout.rows(columns), columns[_REACHED].copy(), []
    for fold, (feature, table_start, table, step) in enumerate(trees):
        node = terminal_nodes_of_rows(rows.codes, rows.all_rows, feature, table_start, table, rows.offset)
        own = rows.train_rows(fold)
        amounts = (rows.weight[own], rows.label[own], rows.weight[own] * sigmoid(reached[fold][own]))
        sums.append(np.column_stack([np.bincount(node[own], amount, len(feature)) for amount in amounts]))
        reached[fold] += step[node]
    return {_REACHED: reached}, (_loss(rows, reached), *sums)


class _Deferred(Future[Value]):
    def __init__(self, function: Callable[[], Value]):
        super().__init__()
        self.function = function

    def result(self, timeout: float | None = None) -> Value:
        """Run the function, once."""
        if not self.done():
            self.set_result(self.function())
        return super().result(timeout)


class OnDemand(Executor):
    """Runs what is submitted when its result is asked for, without threads: a round may be a pass over a cluster."""

    def submit(
        self, fn: Callable[Arguments, Value], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Value]:
        """Defer the call."""
        return _Deferred[Any](lambda: fn(*args, **kwargs))
