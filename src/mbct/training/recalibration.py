"""Logit recalibration: before any tree, the score as a whole is scaled and shifted in the log-odds (Platt scaling).

A base that is over-confident everywhere would cost the trees dozens of rounds for what two numbers express. The line
is a step for each bin of the score, k_c = a + b·z̄_c with z̄_c the bin's mean log-odds, so that the model stays a sum
of leaf values. With two parameters only it can be significant where trees are not.

Where rows belong to blocks, a base may be off by a shift that comes and goes with the days, or by a slope that stays:
the two are fitted together, and each is kept as far as held-out blocks show it.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.training.binned_rows import BinnedRows, RowNumbers
from mbct.training.block_intercepts import block_intercepts, block_sums
from mbct.training.blocks import training_blocks
from mbct.training.evidence import RECALIBRATION_CHI2, SIGNIFICANT_BESIDE_TREES, SIGNIFICANT_LINE, significant_scale
from mbct.training.offsets import DECIMALS, Offsets
from mbct.validation import FloatArray

SCORE = 0
"""Number of the feature that holds the score's bins."""
_NEWTON_STEPS = 12
_SMALL, _SMALL_OF_BLOCKS = 1e-10, 1e-7
"""Changes of a Newton step at which it has converged; shocks of blocks leave more noise."""
_RIDGE = 1.0
"""A normal prior of variance 1 on shift and slope; it only counts where rows are few, or all have one label."""


@dataclass(frozen=True)
class SignificantFit:
    """Steps by code of a recalibration fitted on all rows, and the share of it to keep: 1 − 2/χ²."""

    steps: FloatArray
    shrinkage: float


def fit_recalibration(rows: BinnedRows, n_folds: int, pool: Executor, start: Offsets | None = None) -> Offsets | None:
    """The folds' recalibrations after ``start``, fitted on the other folds; None where held-out rows do not gain."""
    if SCORE not in rows.usable:
        return None
    scores = standardized_scores(rows)
    starts = (rows.log_odds,) * n_folds if start is None else start.log_odds
    steps = tuple(pool.map(lambda k: _fitted_steps(rows, scores, rows.train_rows(k), starts[k]), range(n_folds)))
    log_odds = tuple(_after(rows, z, step) for z, step in zip(starts, steps, strict=True))
    if rows.held_out_loss(log_odds) >= rows.held_out_loss(starts):
        return None
    found = Offsets((SCORE,), steps, (0.0,) * n_folds, log_odds)
    return found if start is None else start.and_then(found)


def significant_fit(rows: BinnedRows) -> SignificantFit | None:
    """The recalibration of all rows where a likelihood-ratio test finds it significant."""
    if SCORE not in rows.usable:
        return None
    every, start = rows.all_rows, rows.log_odds
    steps = _fitted_steps(rows, standardized_scores(rows), every, start)
    gained = rows.loss(every, start) - rows.loss(every, _after(rows, start, steps))
    return None if 2.0 * gained < RECALIBRATION_CHI2 else SignificantFit(steps, 1.0 - 1.0 / gained)


def _after(rows: BinnedRows, log_odds: FloatArray, steps: FloatArray) -> FloatArray:
    """Log-odds moved by the step of each row's bin of the score, the first feature."""
    return np.asarray(log_odds + steps[rows.codes[:, SCORE]])


def standardized_scores(rows: BinnedRows) -> FloatArray:
    """Mean log-odds of each bin of the score, scaled to mean 0 and standard deviation 1 over all rows."""
    code, n_codes = rows.codes[:, SCORE], int(rows.offset[SCORE + 1])
    weight = np.bincount(code, rows.weight, n_codes)
    mean = np.bincount(code, rows.weight * rows.log_odds, n_codes) / np.maximum(weight, 1e-300)
    seen = weight > 0.0
    centre = np.average(mean[seen], weights=weight[seen])
    spread = np.sqrt(np.average((mean[seen] - centre) ** 2, weights=weight[seen]))
    scores = np.where(seen, (mean - centre) / (spread if spread > 0.0 else 1.0), 0.0)
    return np.asarray(np.round(scores, DECIMALS), dtype=np.float64)


def _fitted_steps(rows: BinnedRows, scores: FloatArray, train_rows: RowNumbers, log_odds: FloatArray) -> FloatArray:
    """Step of each bin of the score on the line that fits the training rows best, by Newton's method with the ridge.

    Behind the score's bins come the codes of all other features, without a step.
    """
    shift, slope = _newton_line(rows, scores, train_rows, log_odds, lambda _: rows.label, _SMALL)
    steps = np.zeros(rows.offset[-1])
    steps[: len(scores)] = np.round(shift + slope * scores, DECIMALS)
    return steps


def _newton_line(
    rows: BinnedRows,
    scores: FloatArray,
    train_rows: RowNumbers,
    log_odds: FloatArray,
    label_at: Callable[[FloatArray], FloatArray],
    small: float,
) -> tuple[float, float]:
    """Shift and slope that fit the training rows best; ``label_at`` is their label at the steps of the score's bins."""
    shift = slope = 0.0
    for _ in range(_NEWTON_STEPS):
        step = shift + slope * scores
        g, gx, h, hx, hxx = line_sums(train_rows, rows.codes, log_odds, rows.weight, label_at(step), scores, step)
        curvature = np.array([[h + _RIDGE, hx], [hx, hxx + _RIDGE]])
        change = np.linalg.solve(curvature, np.array([g - _RIDGE * shift, gx - _RIDGE * slope]))
        # A step of more than one in log-odds at once may overshoot where the sigmoid is flat.
        change /= max(1.0, float(np.abs(change).max()))
        shift, slope = shift + float(change[0]), slope + float(change[1])
        if np.abs(change).max() < small:
            break
    return shift, slope


@kernel
def line_sums(
    rows: RowNumbers,
    codes: npt.NDArray[np.uint8],
    log_odds: FloatArray,
    weight: FloatArray,
    label: FloatArray,
    scores: FloatArray,
    step: FloatArray,
) -> tuple[float, float, float, float, float]:
    """Sums of gradient and curvature, plain and times the standardized score, at log-odds moved by the step."""
    g, gx, h, hx, hxx = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in rows:
        code = codes[i, 0]
        x = scores[code]
        z = log_odds[i] + step[code]
        small = np.exp(-abs(z))
        q = (1.0 if z >= 0.0 else small) / (1.0 + small)
        gradient = label[i] - weight[i] * q
        curvature = weight[i] * q * (1.0 - q)
        g += gradient
        gx += gradient * x
        h += curvature
        hx += curvature * x
        hxx += curvature * x * x
    return g, gx, h, hx, hxx


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
    others; what is missing on the whole follows from the means of blocks.
    """
    blocks = rows.blocks
    if blocks is None:
        raise ValueError("independent rows are recalibrated by fit_recalibration")
    gradient = np.zeros((len(rows.weight), 4), dtype=np.float32)
    g, h = block_sums(rows.all_rows, held_out, rows.weight, rows.label, blocks.number, len(blocks), gradient)
    others = (training_blocks(blocks.fold, fold, blocks.gap) for fold in range(rows.n_folds))
    without = np.array([block_intercepts(g * other, h * other)[0] for other in others])
    moved = without[rows.fold]
    kept = significant_scale(rows, held_out, held_out + moved, SIGNIFICANT_BESIDE_TREES)
    return kept * block_intercepts(g, h)[0], kept * moved


def _line_of_blocks(rows: BinnedRows, scores: FloatArray, train_rows: RowNumbers) -> tuple[float, float]:
    """Shift and slope by generalized least squares: Newton's method on labels without the blocks' shocks."""
    blocks = rows.blocks
    if blocks is None:
        raise ValueError("independent rows are recalibrated by fit_recalibration")
    code = rows.codes[:, SCORE]
    gradient = np.zeros((len(rows.weight), 4), dtype=np.float32)

    def label_without_shocks(step: FloatArray) -> FloatArray:
        log_odds = rows.log_odds + step[code]
        g, h = block_sums(train_rows, log_odds, rows.weight, rows.label, blocks.number, len(blocks), gradient)
        _, shock = block_intercepts(g, h)
        return np.asarray(rows.label - gradient[:, 1] * shock[blocks.number])

    return _newton_line(rows, scores, train_rows, rows.log_odds, label_without_shocks, _SMALL_OF_BLOCKS)
