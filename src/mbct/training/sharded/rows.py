"""Rows in shards as the stages of training ask for them: sums over all of them, one pass for all folds.

Each task is a function of a shard's rows and its log-odds by fold, so that it can be sent to where the shard is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.model.bins import FeatureBins, code_offsets
from mbct.model.ensemble import sum_trees
from mbct.model.tree import CalibrationTree
from mbct.stats.probabilities import sigmoid
from mbct.training.binned_rows import BinnedRows, RowNumbers
from mbct.training.block_intercepts import block_sums
from mbct.training.boosting import BoostingOptions
from mbct.training.cells import Sums, sums_of_equal_scores
from mbct.training.evidence import gains_of_rows, weight_by_fold
from mbct.training.folds import BlockOptions, RowBlocks, blocks_of_weight, split_into_folds
from mbct.training.grower import newton_sums
from mbct.training.offsets import SCORE, Offsets, line_sums
from mbct.training.sharded.shards import Columns, Shards, Totals
from mbct.training.splitter import GradientArray
from mbct.validation import FloatArray

ALL = -1
"""Number of the fold that holds no row out."""


@dataclass(frozen=True)
class Layout:
    """What the rows of all shards share; see :class:`~mbct.training.binned_rows.BinnedRows`.

    ``blocks`` have no numbers of rows: those are a column of each shard.
    """

    offset: npt.NDArray[np.int64]
    ordered: npt.NDArray[np.bool_]
    usable: npt.NDArray[np.int64]
    n_folds: int
    seed: int
    atomic: bool
    blocks: RowBlocks | None

    def rows(self, columns: Columns) -> BinnedRows:
        """A shard's rows."""
        blocks = None if self.blocks is None else replace(self.blocks, number=columns["block"])
        return BinnedRows(
            columns["codes"],
            columns["start"],
            columns["weight"],
            columns["label"],
            columns["fold"],
            self.offset,
            self.ordered,
            self.usable,
            self.atomic,
            blocks,
        )


@dataclass(frozen=True)
class Correction:
    """How log-odds move by fold: by offsets, and after them by trees times a scale, and a shift.

    ``of_all``: there is one correction for all rows, that of the fold ``ALL``.
    """

    start: Offsets | None = None
    trees: tuple[tuple[CalibrationTree, ...], ...] = ()
    scale: float = 1.0
    shift: tuple[float, ...] = ()
    of_all: bool = False

    def step(self, fold: int, rows: BinnedRows, own: RowNumbers | slice = slice(None)) -> FloatArray:
        """Step of the rows ``own`` under one fold's correction."""
        codes = rows.codes[own]
        total = np.zeros(len(codes)) if self.start is None else self.start.step_of(fold, codes, rows.offset)
        if self.trees:
            total += self.scale * sum_trees(self.trees[fold], codes, rows.n_codes)
        return total + (self.shift[fold] if self.shift else 0.0)

    def log_odds(self, rows: BinnedRows) -> FloatArray:
        """Log-odds of each row after the correction of the fold that holds it out, or of all."""
        if self.of_all:
            return rows.log_odds + self.step(ALL, rows)
        found = rows.log_odds.copy()
        for fold in range(max(len(self.trees), len(self.shift), 0 if self.start is None else len(self.start.steps))):
            own = rows.held_out_rows(fold)
            found[own] += self.step(fold, rows, own)
        return found


@dataclass
class ShardedRows:
    """Shards and what their rows share; ``reached_by``: the ensembles whose log-odds the shards hold."""

    shards: Shards
    layout: Layout
    reached_by: object = None

    def total(self, function: Callable[..., Totals], *arguments: Any) -> Totals:
        """Sums over all rows of what ``function`` finds in the rows of a shard."""
        return self.shards.total(partial(_of_rows, self.layout, function, arguments))

    def total_by_number(self, function: Callable[..., Any], *arguments: Any) -> Totals:
        """The same of a function that needs all columns, and the number of the first row."""
        return self.shards.total(partial(function, self.layout, *arguments))

    def update(self, function: Callable[..., Any], *arguments: Any) -> Totals:
        """The same of a function whose changed columns are kept."""
        return self.shards.update(partial(function, self.layout, *arguments))

    def head(self, n_rows: int) -> BinnedRows:
        """The first rows."""
        return self.layout.rows(self.shards.head(n_rows))


def _of_rows(
    layout: Layout, function: Callable[..., Totals], arguments: Sequence[Any], columns: Columns, _first: int
) -> tuple[Columns, Totals]:
    return {}, function(layout.rows(columns), *arguments)


def sums_of_cells(columns: Columns) -> Sums:
    """Sums of a shard of cells whose rows share codes and prediction."""
    return sums_of_equal_scores(columns["weight"], columns["label"], columns["y_prob"])


def weight_by_block(n_blocks: int, columns: Columns, _first: int) -> tuple[Columns, Totals]:
    """Weight of a shard's cells by block."""
    return {}, (np.bincount(columns["block"], columns["weight"], n_blocks),)


def split_shard(layout: Layout, per_row: float, shift: float, columns: Columns, first: int) -> tuple[Columns, Totals]:
    """Rows of a shard of cells, split into folds as :func:`~mbct.training.binned_rows.split_cells` would."""
    sums = sums_of_cells(columns).divided(per_row)
    start, count, label = sums.logit / sums.count + shift, sums.count, sums.label
    if layout.blocks is None:
        parts = split_into_folds(count, label, layout.n_folds, layout.seed, atomic=layout.atomic, first=first)
        cell, fold, count, label = parts.cell, parts.fold, parts.count, parts.label
    else:
        cell, fold = np.arange(len(count)), layout.blocks.fold[columns["block"]]
    kept = {name: np.ascontiguousarray(columns[name][cell]) for name in ("codes", "block") if name in columns}
    return kept | {"start": start[cell], "weight": count, "label": label, "fold": fold}, (float(count.sum()),)


def split_shards(
    shards: Shards,
    bins: FeatureBins,
    options: BoostingOptions,
    blocks: tuple[int, BlockOptions] | None,
    *,
    per_row: float,
    atomic: bool,
    shift: float,
) -> tuple[ShardedRows, float]:
    """Cells in shards as rows in folds, and their weight; ``blocks``: how many there are, and how they become folds.

    Weights are divided by ``per_row``, log-odds moved by a ``shift``.
    """
    n_folds, of_weight = options.n_folds, None
    if blocks is not None:
        n_blocks, block_options = blocks
        [weight] = shards.total(partial(weight_by_block, n_blocks))
        of_weight = blocks_of_weight(weight / per_row, n_folds, options.seed, block_options)
        n_folds = int(of_weight.fold.max()) + 1
    ordered = np.array([feature.ordered for feature in bins], dtype=np.bool_)
    usable = np.arange(len(ordered))
    layout = Layout(code_offsets(bins.n_codes), ordered, usable, n_folds, options.seed, atomic, of_weight)
    [total] = shards.update(partial(split_shard, layout, per_row, shift))
    return ShardedRows(shards, layout), float(total)


def train_rows(rows: BinnedRows, fold: int) -> RowNumbers:
    """Rows that ``fold`` is fitted on; all of them for ``ALL``."""
    return rows.all_rows if fold == ALL else rows.train_rows(fold)


def score_sums(rows: BinnedRows) -> Totals:
    """Weight and weighted log-odds of each bin of the score."""
    code, n_codes = rows.codes[:, SCORE], int(rows.offset[SCORE + 1])
    return np.bincount(code, rows.weight, n_codes), np.bincount(code, rows.weight * rows.log_odds, n_codes)


def code_weights(rows: BinnedRows, feature: int, n_folds: int) -> Totals:
    """Weight of each code of a feature in each fold."""
    return (weight_by_fold(rows.codes[:, feature], rows.weight, rows.fold, n_folds, rows.n_codes[feature]),)


def losses(rows: BinnedRows, *corrections: Correction) -> Totals:
    """Summed log loss after each correction, of held-out rows if it has a step for each fold, else of all."""
    return tuple(rows.loss(rows.all_rows, each.log_odds(rows)) for each in corrections)


def line_sums_by_fold(
    rows: BinnedRows, scores: FloatArray, start: Correction, steps: Mapping[int, FloatArray], shocks: Mapping[int, Any]
) -> Totals:
    """Of each fold the sums that :func:`~mbct.training.offsets.newton_line` asks for, without the blocks' shocks."""
    found = []
    for fold, step in steps.items():
        own, z, label = train_rows(rows, fold), rows.log_odds + start.step(fold, rows), rows.label
        if fold in shocks:
            _, _, gradient = _block_sums(rows, own, z + step[rows.codes[:, SCORE]], len(shocks[fold]))
            label = np.asarray(label - gradient[:, 1] * shocks[fold][rows.block_numbers])
        found.append(np.array(line_sums(own, rows.codes, z, rows.weight, label, scores, step)))
    return tuple(found)


def block_sums_of_steps(rows: BinnedRows, steps: Mapping[int, FloatArray], n_blocks: int) -> Totals:
    """Of each fold's training rows G and H by block, with a step of each bin of the score."""
    code = rows.codes[:, SCORE]
    moved = ((train_rows(rows, fold), rows.log_odds + step[code]) for fold, step in steps.items())
    return tuple(np.array(_block_sums(rows, own, z, n_blocks)[:2]) for own, z in moved)


def held_out_block_sums(rows: BinnedRows, correction: Correction, n_blocks: int) -> Totals:
    """G and H of held-out rows by block."""
    return _block_sums(rows, rows.all_rows, correction.log_odds(rows), n_blocks)[:2]


def _block_sums(
    rows: BinnedRows, own: RowNumbers, log_odds: FloatArray, n_blocks: int
) -> tuple[FloatArray, FloatArray, GradientArray]:
    gradient = np.zeros((len(rows.weight), 4), dtype=np.float32)
    g, h = block_sums(own, log_odds, rows.weight, rows.label, rows.block_numbers, n_blocks, gradient)
    return g, h, gradient


def value_sums(rows: BinnedRows, feature: int, folds: Sequence[int], moved: Correction) -> Totals:
    """G and H of each fold's training rows by the values of a feature."""
    code, n_codes = rows.codes[:, feature], rows.n_codes[feature]

    def sums(fold: int) -> FloatArray:
        z = rows.log_odds + moved.step(fold, rows)
        return np.array(newton_sums(train_rows(rows, fold), code, z, rows.weight, rows.label, n_codes))

    return tuple(map(sums, folds))


def gain_sums(rows: BinnedRows, before: Correction, after: Correction, n_folds: int, n_blocks: int) -> Totals:
    """Gain, its square and the weight by fold, and gain and weight by block."""
    gain, square = gains_of_rows(before.log_odds(rows), after.log_odds(rows), rows.weight, rows.label)
    by_fold = (np.bincount(rows.fold, values, n_folds) for values in (gain, square, rows.weight))
    if rows.blocks is None:
        return tuple(by_fold)
    by_block = (np.bincount(rows.block_numbers, values, n_blocks) for values in (gain, rows.weight))
    return (*by_fold, *by_block)


def scale_sums(rows: BinnedRows, before: Correction, after: Correction, scale: float, n_blocks: int) -> Totals:
    """What a :class:`~mbct.training.evidence.BlockMoments` holds, by block at a scale of the correction, and c²·v."""
    start = before.log_odds(rows)
    correction = after.log_odds(rows) - start
    q = sigmoid(start + scale * correction)
    residual, variance = rows.label - rows.weight * q, rows.weight * q * (1.0 - q)
    found = (correction * residual, residual, variance, correction * variance, correction**2 * variance)
    return tuple(np.bincount(rows.block_numbers, values, n_blocks) for values in found)


def node_sums(rows: BinnedRows, trees: Sequence[CalibrationTree]) -> Totals:
    """Count, label and prediction sums of each tree's terminal nodes, each at what the trees before it predict."""
    found, log_odds = [], rows.log_odds.copy()
    for tree in trees:
        node = tree.apply(rows.codes)
        amounts = (rows.weight, rows.label, rows.weight * sigmoid(log_odds))
        found.append(np.column_stack([np.bincount(node, amount, tree.n_nodes) for amount in amounts]))
        log_odds += tree.leaf_value[node]
    return tuple(found)
