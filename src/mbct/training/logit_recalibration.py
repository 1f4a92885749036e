"""Logit recalibration: before any tree, the score as a whole is scaled and shifted in the log-odds (Platt scaling).

A base that is over-confident everywhere would cost the trees dozens of rounds for what two numbers express. The line
is a step for each bin of the score, k_c = a + b·z̄_c with z̄_c the bin's mean log-odds, so that the model stays a sum
of leaf values. With two parameters only it can be significant where trees are not.
"""

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.training.binned_rows import BinnedRows, RowNumbers
from mbct.training.evidence import RECALIBRATION_CHI2
from mbct.training.offsets import DECIMALS, Offsets
from mbct.validation import FloatArray

SCORE = 0
"""Number of the feature that holds the score's bins."""
_NEWTON_STEPS = 12
_SMALL = 1e-10
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
    shift = slope = 0.0
    for _ in range(_NEWTON_STEPS):
        step = shift + slope * scores
        g, gx, h, hx, hxx = line_sums(train_rows, rows.codes, log_odds, rows.weight, rows.label, scores, step)
        curvature = np.array([[h + _RIDGE, hx], [hx, hxx + _RIDGE]])
        change = np.linalg.solve(curvature, np.array([g - _RIDGE * shift, gx - _RIDGE * slope]))
        # A step of more than one in log-odds at once may overshoot where the sigmoid is flat.
        change /= max(1.0, float(np.abs(change).max()))
        shift, slope = shift + float(change[0]), slope + float(change[1])
        if np.abs(change).max() < _SMALL:
            break
    steps = np.zeros(rows.offset[-1])
    steps[: len(scores)] = np.round(shift + slope * scores, DECIMALS)
    return steps


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
