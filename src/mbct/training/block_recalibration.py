"""Logit recalibration where rows belong to blocks: a shift that comes and goes with the days, or a slope that stays.

The two are fitted together, and each is kept as far as held-out blocks show it.
"""

from concurrent.futures import Executor

import numpy as np

from mbct.training.binned_rows import BinnedRows, RowNumbers
from mbct.training.block_intercepts import block_intercepts, block_sums
from mbct.training.evidence import SIGNIFICANT_LINE, significant_scale
from mbct.training.folds import training_blocks
from mbct.training.offsets import (
    DECIMALS,
    SCORE,
    LineSums,
    Offsets,
    answered,
    line_sums,
    newton_line,
    standardized_scores,
)
from mbct.validation import FloatArray

SMALL_LINE = 1e-7
"""Changes of a Newton step at which it has converged; shocks of blocks leave more noise than labels."""


def fit_block_recalibration(rows: BinnedRows, pool: Executor) -> Offsets | None:
    """The folds' slopes and shifts, scaled by what held-out blocks show; None where neither is significant."""
    if SCORE not in rows.usable:
        return None
    scores = standardized_scores(rows)
    lines = list(pool.map(lambda fold: _line_of_blocks(rows, scores, rows.train_rows(fold)), range(rows.n_folds)))
    shift, slope = (np.array(values) for values in zip(*lines, strict=True))
    sloped = slope[rows.fold] * scores[rows.codes[:, SCORE]]
    kept_slope = significant_scale(rows, rows.log_odds, rows.log_odds + sloped, SIGNIFICANT_LINE)
    before = rows.log_odds + kept_slope * sloped
    kept_shift = significant_scale(rows, before, before + shift[rows.fold], SIGNIFICANT_LINE)
    if kept_slope == kept_shift == 0.0:
        return None
    steps, log_odds = [], []
    for fold in range(rows.n_folds):
        own = np.zeros(rows.offset[-1])
        own[: len(scores)] = np.round(kept_shift * shift[fold] + kept_slope * slope[fold] * scores, DECIMALS)
        steps.append(own)
        log_odds.append(rows.log_odds + own[rows.codes[:, SCORE]])
    return Offsets((SCORE,), tuple(steps), (0.0,) * rows.n_folds, tuple(log_odds))


def shift_beside(rows: BinnedRows, held_out: FloatArray) -> tuple[float, FloatArray]:
    """The shift that held-out predictions still need, and that of each row from the other folds alone.

    Trees see differences between the rows of a block only. Where one segment is too low, they raise it and lower the
    others; what is missing on the whole follows from the means of blocks. That the base is off is no longer in doubt
    where trees were kept, so the shift is shrunk as its standard error asks, and need not be significant.
    """
    blocks = rows.blocks
    if blocks is None:
        raise ValueError("independent rows are recalibrated by fit_recalibration")
    gradient = np.zeros((len(rows.weight), 4), dtype=np.float32)
    g, h = block_sums(rows.evaluated_rows, held_out, rows.weight, rows.label, blocks.number, len(blocks), gradient)
    others = (training_blocks(blocks.fold, fold, blocks.gap) for fold in range(rows.n_folds))
    without = np.array([block_intercepts(g * other, h * other)[0] for other in others])
    moved = without[rows.fold]
    kept = significant_scale(rows, held_out, held_out + moved, least=0.0)
    return kept * block_intercepts(g, h)[0], kept * moved


def _line_of_blocks(rows: BinnedRows, scores: FloatArray, train_rows: RowNumbers) -> tuple[float, float]:
    """Shift and slope by generalized least squares: Newton's method on labels without the blocks' shocks."""
    blocks = rows.blocks
    if blocks is None:
        raise ValueError("independent rows are recalibrated by fit_recalibration")
    code = rows.codes[:, SCORE]
    gradient = np.zeros((len(rows.weight), 4), dtype=np.float32)

    def sums_at(step: FloatArray) -> LineSums:
        log_odds = rows.log_odds + step[code]
        g, h = block_sums(train_rows, log_odds, rows.weight, rows.label, blocks.number, len(blocks), gradient)
        _, shock = block_intercepts(g, h)
        label = np.asarray(rows.label - gradient[:, 1] * shock[blocks.number])
        return line_sums(train_rows, rows.codes, rows.log_odds, rows.weight, label, scores, step)

    return answered(newton_line(scores, SMALL_LINE), sums_at)
