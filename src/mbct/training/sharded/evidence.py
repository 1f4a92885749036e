"""Evidence from rows in shards: the statistics of :mod:`mbct.training.evidence` from sums over all of them."""

from dataclasses import replace

import numpy as np

from mbct.training.block_intercepts import block_intercepts
from mbct.training.evidence import (
    IDENTIFIES_TIME,
    BlockMoments,
    Gain,
    Scale,
    fitted_scale,
    gain_of_rows,
    kept_scale,
    mean_distance,
    standard_error_of_blocks,
)
from mbct.training.folds import RowBlocks, training_blocks
from mbct.training.offsets import SCORE
from mbct.training.sharded.rows import Correction, ShardedRows, code_weights, gain_sums, held_out_block_sums, scale_sums
from mbct.validation import FloatArray


def blocks_of(rows: ShardedRows) -> RowBlocks:
    """Of rows that have some."""
    if rows.layout.blocks is None:
        raise ValueError("independent rows have no blocks")
    return rows.layout.blocks


def sharded_gain(rows: ShardedRows, before: Correction, after: Correction) -> Gain:
    """:func:`~mbct.training.evidence.held_out_gain`."""
    blocks, n_folds = rows.layout.blocks, rows.layout.n_folds
    n_blocks = 0 if blocks is None else len(blocks)
    gain, square, weight, *by_block = rows.total(gain_sums, before, after, n_folds, n_blocks)
    found = gain_of_rows(gain, square, float(weight.sum()), np.arange(n_folds, dtype=np.uint8))
    found = replace(found, by_fold=tuple((gain[weight > 0.0] / weight[weight > 0.0]).tolist()))
    if blocks is None:
        return found
    gain, weight = by_block
    number = np.arange(n_blocks, dtype=np.int32)
    error = standard_error_of_blocks(gain, weight, number, in_order=blocks.in_order)
    return replace(found, standard_error=error)


def sharded_scale(rows: ShardedRows, before: Correction, after: Correction, least: float) -> float:
    """:func:`~mbct.training.evidence.significant_scale`."""
    blocks = blocks_of(rows)

    def scale(block_weight: FloatArray) -> Scale:
        def sums(at: float) -> list[FloatArray]:
            return [block_weight * each for each in rows.total(scale_sums, before, after, at, len(blocks))]

        def slopes(at: float) -> tuple[float, float]:
            score, *_, curvature = sums(at)
            return float(score.sum()), float(curvature.sum())

        return fitted_scale(slopes, lambda at: BlockMoments(*sums(at)[:4]), in_order=blocks.in_order)

    return kept_scale(scale, blocks, len(blocks), least)


def sharded_shift(rows: ShardedRows, after: Correction) -> tuple[float, tuple[float, ...]]:
    """:func:`~mbct.training.block_recalibration.shift_beside`, the shift of held-out rows by fold."""
    blocks, folds = blocks_of(rows), range(rows.layout.n_folds)
    g, h = rows.total(held_out_block_sums, after, len(blocks))
    others = (training_blocks(blocks.fold, fold, blocks.gap) for fold in folds)
    without = tuple(block_intercepts(g * other, h * other)[0] for other in others)
    kept = sharded_scale(rows, after, replace(after, shift=without), least=0.0)
    return kept * block_intercepts(g, h)[0], tuple(kept * shift for shift in without)


def sharded_identifying_time(rows: ShardedRows) -> tuple[int, ...]:
    """:func:`~mbct.training.evidence.identifying_time`."""
    layout = rows.layout
    if not blocks_of(rows).in_order:
        return ()

    def distance(j: int) -> float:
        return mean_distance(rows.total(code_weights, j, layout.n_folds)[0])

    return tuple(int(j) for j in layout.usable if j != SCORE and distance(int(j)) > IDENTIFIES_TIME)
