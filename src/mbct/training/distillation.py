"""Distillation: a large ensemble compressed into few tables and trees, so that rules, SQL and the cache stay small.

They are grown on the ensemble's own probabilities, which carry no label noise, and their leaf values are then refitted
jointly by Newton passes. Tables over at most eight features are one look-up each, however many leaves they have; small
trees over any features are what people read. Fidelity to the ensemble is measured on rows they were not grown on.
"""

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mbct.model.ensemble import sum_trees
from mbct.model.tree import CalibrationTree, IntArray, n_rules, rounded
from mbct.stats.probabilities import logit
from mbct.training.binned_rows import HELD_OUT, BinnedRows, RowNumbers
from mbct.training.grower import grow_tree, move, newton_sums, terminal_nodes_of_growth
from mbct.training.nodes import TreeOptions
from mbct.training.tables import ROWS_TRIED, ClassedRows, TableGrowth
from mbct.validation import FloatArray

_LARGEST_STEP = 1.0
"""Newton steps of one pass are held inside this."""
_LIFTED_BY_PASSES = 0.02
"""Fidelity that the Newton passes at the end of a stage are not expected to exceed."""
_REFITTED_AT_ONCE = 1 << 14
"""Rows of which a thread sums the derivatives at once."""
_PASSES_TO_EVALUATE = 3
"""Newton passes after which a new tree is evaluated."""
_ROUNDING = 1e-9
"""Relative improvement that a replaced tree must bring, so that rounding cannot choose."""
_REFIT_EVERY, _PASSES_IN_GROWTH = 4, 2
"""Trees after which all leaf values are refitted while more are to come, and Newton passes of that."""
_LEAVES_TO_CHOOSE, _FIRST_FEATURES = 64, 5
"""Leaves of the tree whose first splits choose the features of a table, and how many of these."""
_WORTH_ANOTHER = 0.99
"""Another cycle through the trees is worth its time where the last one left less than this share of the divergence."""

DISTILLED_GROWTH = TreeOptions(max_leaves=512, parent_shrinkage=2.0, min_curvature=3.0, rate=0.3, cross_fitted=False)
TABLE_GROWTH = DISTILLED_GROWTH._replace(max_leaves=2048, free_values=20)


class Stage(NamedTuple):
    """A number of trees and tables, which is taken where it keeps this share of the ensemble's correction."""

    n_trees: int
    fidelity: float


LAST_RESORT = Stage(48, 0.85)
"""For ensembles that are too large to ship as they are."""


@dataclass(frozen=True)
class DistillationOptions:
    """``stages``: the first that keeps its share is taken; where none does, the full ensemble stays.

    ``growth``: of trees over any features; ``table_growth``: of tables over at most ``tables`` features, which are
    grown instead where that is not 0. ``cycles``: how often at most each tree is grown anew beside all the others,
    where the fidelity is ``promising`` without but not yet ``enough``. ``most_rules``: of all trees together.
    """

    stages: tuple[Stage, ...] = (Stage(8, 0.985), Stage(16, 0.985), Stage(32, 0.97), LAST_RESORT)
    passes: int = 6
    cycles: int = 0
    promising: float = 0.0
    enough: float = 0.99
    ridge: float = 1.0
    growth: TreeOptions = DISTILLED_GROWTH
    table_growth: TreeOptions = TABLE_GROWTH
    tables: int = 8
    most_rules: int = sys.maxsize

    def with_most_leaves(self, most: int) -> "DistillationOptions":
        """The same with no more leaves a tree or table than ``most``."""
        growth, table_growth = (
            each._replace(max_leaves=min(each.max_leaves, most)) for each in (self.growth, self.table_growth)
        )
        return replace(self, growth=growth, table_growth=table_growth)

    def whatever_it_keeps(self) -> "DistillationOptions":
        """The same with a last stage that is taken in any case."""
        *others, last = self.stages
        return replace(self, stages=(*others, Stage(last.n_trees, 0.0)))


TABLES = DistillationOptions()
"""As many tables as the ensemble's correction takes.

Part of what an ensemble says is noise, which few tables rightly leave out. On later rows of development data 48 that
kept 95 % of the correction kept 93 % of the gain (flights of 2001), and 48 that kept 90 % kept all of it (employment).
"""
RULES = replace(TABLES, stages=(Stage(4, 0.99), Stage(8, 0.99), Stage(16, 0.0)))
"""At most 16 tables, whatever they keep."""
COMPACT = DistillationOptions(
    stages=(Stage(8, 0.0),),
    passes=10,
    cycles=6,
    ridge=0.2,
    growth=DISTILLED_GROWTH._replace(max_leaves=32, parent_shrinkage=1.0, min_curvature=1.0),
    tables=0,
    most_rules=256,
)
"""At most 8 trees of 32 leaves, 256 rules: for people to read and a cache to hold."""
SMALLEST = replace(COMPACT, stages=(Stage(8, 0.985),), promising=0.9)
"""The same, where that keeps the ensemble's correction."""


def is_small(trees: Sequence[CalibrationTree], most: int) -> bool:
    """Whether there are at most so many trees, with no more rules than so many compact ones."""
    return len(trees) <= most and sum(map(n_rules, trees)) <= most * COMPACT.growth.max_leaves


@dataclass(frozen=True)
class DistilledTrees:
    """All the trees, the share of the correction that they keep on cells not grown on, and whether that is enough."""

    trees: tuple[CalibrationTree, ...]
    fidelity: float
    is_enough: bool


def distill(
    rows: BinnedRows,
    options: DistillationOptions,
    on_tree: Callable[[int], None] = lambda _: None,
    kept: tuple[CalibrationTree, ...] = (),
) -> DistilledTrees:
    """Few trees for a distillation set, after the trees ``kept``, which come first; their sums are still empty."""
    reached: list[float] = []
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        student = _Student(rows, rows.log_odds + sum_trees(kept, rows.codes, rows.n_codes), options, pool)
        for stage in options.stages:
            while len(student.trees) < stage.n_trees - len(kept):
                student.grow()
                on_tree(1)
                if options.tables and len(student.trees) % _REFIT_EVERY == 0:
                    student.refit(_PASSES_IN_GROWTH)
            reached.append(student.fidelity())
            if stage is options.stages[-1] or reached[-1] > stage.fidelity - _LIFTED_BY_PASSES:
                student.refit(options.passes)
                reached[-1] = student.fidelity()
            if options.promising <= reached[-1] < options.enough and options.cycles:
                student.improve(on_tree)
                reached[-1] = student.fidelity()
            if reached[-1] >= stage.fidelity or _out_of_reach(reached, options):
                break
    return DistilledTrees((*kept, *student.trees), reached[-1], reached[-1] >= stage.fidelity)


def _out_of_reach(reached: list[float], options: DistillationOptions) -> bool:
    """Whether the last stage cannot keep enough: every further one would have to close as much as the last one did."""
    if len(reached) < 2:
        return False
    left = len(options.stages) - len(reached)
    return reached[-1] + left * max(reached[-1] - reached[-2], 0.0) < options.stages[-1].fidelity


class _Candidate(NamedTuple):
    """A grown tree and the node of every row that it was grown on; nodes of other rows are still to be found."""

    tree: CalibrationTree
    nodes: IntArray


class _Student:
    """The few trees, the nodes in which they put the rows, and the rows' log-odds after them."""

    def __init__(self, rows: BinnedRows, log_odds: FloatArray, options: DistillationOptions, pool: Executor):
        self.rows = rows
        self.pool = pool
        self.train_rows = rows.train_rows(HELD_OUT)
        self.held_out_rows = rows.held_out_rows(HELD_OUT)
        self.held_out_codes = rows.codes[self.held_out_rows]
        self.ensemble_log_odds = logit(rows.label / rows.weight)
        self.log_odds = log_odds
        self.options = options
        self.tables = TableGrowth(rows, self.train_rows, options.tables) if options.tables else None
        self.trees: list[CalibrationTree] = []
        self.nodes: list[IntArray] = []

    def grow(self) -> None:
        """Add a tree over any features, or where tables are asked for the one that leaves least of the divergence.

        One has the features that gain most together, the other those that a tree over all of them splits by first:
        a table of all combinations sees little of what many features do together. Both grow side by side.
        """
        if self.tables is None:
            self._put(len(self.trees), self._tree(self.options.growth))
            return
        tables = self.tables
        waiting = self.pool.submit(lambda: self._evaluated(tables.next_table(self.log_odds)))
        chosen = self._first_features()
        others = [self._evaluated(tables.classed(chosen))] if chosen else []
        found = [waiting.result(), *others]
        self._put(len(self.trees), min(found, key=lambda each: each[0])[1])

    def _first_features(self) -> tuple[int, ...]:
        """Features that a tree over all of them splits by first."""
        some = self.train_rows[:: -(-len(self.train_rows) // ROWS_TRIED)]
        options = self.options.growth._replace(max_leaves=_LEAVES_TO_CHOOSE)
        first = self._grown(self.rows, some, self.rows.usable, options).tree.feature
        return tuple(sorted(tuple(dict.fromkeys(first[first >= 0].tolist()))[:_FIRST_FEATURES]))

    def _evaluated(self, classed: ClassedRows) -> tuple[float, _Candidate]:
        """A table, and the log loss that it would leave."""
        found = self._grown(classed.rows, self.train_rows, classed.rows.usable, self.options.table_growth)
        loss = self.rows.loss(self.train_rows, self.log_odds + found.tree.leaf_value[found.nodes])
        return loss, found._replace(tree=classed.expanded(found.tree))

    def _put(self, number: int, found: _Candidate) -> None:
        """Set one tree, or the next one, and move the rows by it."""
        tree, nodes = found
        nodes[self.held_out_rows] = tree.apply(self.held_out_codes)
        self.trees[number : number + 1] = [tree]
        self.nodes[number : number + 1] = [nodes]
        move(self.log_odds, tree.leaf_value, nodes)

    def refit(self, passes: int) -> None:
        """Newton passes over the leaf values of all trees."""
        for _ in range(passes):
            for number in range(len(self.trees)):
                self._refit_tree(number)

    def improve(self, on_tree: Callable[[int], None]) -> None:
        """Replace trees in turn, each by one grown in full beside the others, until that is enough or helps no more."""
        divergence = self._divergence(self.train_rows, self.log_odds)
        for _ in range(self.options.cycles):
            before = divergence
            for number in range(len(self.trees)):
                divergence = self._replaced(number, divergence)
                on_tree(1)
            if divergence > _WORTH_ANOTHER * before or self.fidelity() >= self.options.enough:
                break
        self.refit(self.options.passes)

    def _replaced(self, number: int, divergence: float) -> float:
        """Grow another tree in place of one and refit all; undone unless the divergence, returned, is lower."""
        trees, nodes, log_odds = self.trees.copy(), self.nodes.copy(), self.log_odds.copy()
        move(self.log_odds, -self.trees[number].leaf_value, self.nodes[number])
        self._put(number, self._tree(self.options.growth._replace(rate=1.0)))
        self.refit(_PASSES_TO_EVALUATE)
        now = self._divergence(self.train_rows, self.log_odds)
        if now < divergence * (1.0 - _ROUNDING):
            return now
        self.trees, self.nodes, self.log_odds = trees, nodes, log_odds
        return divergence

    def fidelity(self) -> float:
        """1 − KL(ensemble ‖ trees)/KL(ensemble ‖ base), over the held-out cells."""
        total = self._divergence(self.held_out_rows, self.rows.log_odds)
        return 1.0 - self._divergence(self.held_out_rows, self.log_odds) / total if total > 0.0 else 1.0

    def _divergence(self, chosen: RowNumbers, log_odds: FloatArray) -> float:
        """KL(ensemble ‖ predictions) over some rows: their log loss beyond that of the ensemble itself."""
        return self.rows.loss(chosen, log_odds) - self.rows.loss(chosen, self.ensemble_log_odds)

    def _tree(self, options: TreeOptions) -> _Candidate:
        return self._grown(self.rows, self.train_rows, self.rows.usable, options)

    def _grown(
        self, rows: BinnedRows, train_rows: RowNumbers, features: npt.NDArray[np.int64], options: TreeOptions
    ) -> _Candidate:
        gradient = np.zeros((len(self.log_odds), 4), dtype=np.float32)
        grown = grow_tree(rows, train_rows, features, self.log_odds, rows.label, gradient, options, np.uint64(0))
        nodes = np.zeros(len(self.log_odds), dtype=np.int32)
        terminal_nodes_of_growth(grown, nodes)
        empty = np.zeros(len(grown.feature))
        leaf_value = rounded(grown.leaf_value * options.rate)
        tree = CalibrationTree(grown.feature, grown.table_start, grown.table, leaf_value, empty, empty, empty)
        return _Candidate(tree, nodes)

    def _refit_tree(self, number: int) -> None:
        """One Newton step on all of a tree's leaf values at once; the rows' log-odds follow."""
        tree, node, ridge = self.trees[number], self.nodes[number], self.options.ridge

        def sums(begin: int) -> tuple[FloatArray, FloatArray]:
            some = self.train_rows[begin : begin + _REFITTED_AT_ONCE]
            return newton_sums(some, node, self.log_odds, self.rows.weight, self.rows.label, tree.n_nodes)

        begins = range(0, len(self.train_rows), _REFITTED_AT_ONCE)
        g, h = np.sum(list(self.pool.map(sums, begins)), axis=0)
        change = np.where(
            h > 0, np.clip((g - ridge * tree.leaf_value) / (h + ridge), -_LARGEST_STEP, _LARGEST_STEP), 0.0
        )
        leaf_value = rounded(tree.leaf_value + change)
        move(self.log_odds, leaf_value - tree.leaf_value, node)
        self.trees[number] = replace(tree, leaf_value=leaf_value)
