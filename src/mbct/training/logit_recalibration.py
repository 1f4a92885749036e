"""A line in the log-odds: before any tree, the score as a whole is stretched and shifted, as Platt scaling does it.

A base that is over-confident everywhere would cost the trees dozens of rounds to say what two numbers say. The line is
a step for each bin of the score, k_c = a + b·z̄_c with z̄_c the bin's mean log-odds, so that the model stays a sum of
leaf steps. With two numbers only it can also be told from chance where trees cannot.
"""

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.training.binned_rows import Parts, RowNumbers
from mbct.training.offsets import DECIMALS, Effects
from mbct.validation import FloatArray

_SCORE = 0
"""Number of the feature that holds the score's bins."""
_NEWTON_STEPS = 12
_SMALL = 1e-10
_RIDGE = 1.0
"""A normal prior of variance 1 on shift and slope; it only counts where rows are few, or all have one label."""
_NOT_CHANCE = 13.816
"""The χ² of two degrees that chance exceeds once in a thousand: twice the nats that the line must gain."""


@dataclass(frozen=True)
class SureLine:
    """Steps by code of a line fitted on all rows, and how much of it to keep: 1 − 2/χ²."""

    steps: FloatArray
    trust: float


def fit_line(parts: Parts, n_folds: int, pool: Executor, start: Effects | None = None) -> Effects | None:
    """The folds' lines after ``start``, each fitted on the other folds' rows; None where rows left out gain nothing."""
    if _SCORE not in parts.usable:
        return None
    place = _places(parts)
    starts = (parts.log_odds,) * n_folds if start is None else start.log_odds
    steps = tuple(pool.map(lambda k: _line_steps(parts, place, parts.rows_but(k), starts[k]), range(n_folds)))
    log_odds = tuple(_after(parts, z, step) for z, step in zip(starts, steps, strict=True))
    if parts.held_out_loss(log_odds) >= parts.held_out_loss(starts):
        return None
    line = Effects((_SCORE,), steps, (0.0,) * n_folds, log_odds)
    return line if start is None else start.and_then(line)


def line_beyond_chance(parts: Parts) -> SureLine | None:
    """The line of all rows where a likelihood-ratio test tells it from chance."""
    if _SCORE not in parts.usable:
        return None
    rows = parts.all_rows
    steps = _line_steps(parts, _places(parts), rows, parts.log_odds)
    gained = parts.loss(rows, parts.log_odds) - parts.loss(rows, _after(parts, parts.log_odds, steps))
    return None if 2.0 * gained < _NOT_CHANCE else SureLine(steps, 1.0 - 1.0 / gained)


def _after(parts: Parts, log_odds: FloatArray, steps: FloatArray) -> FloatArray:
    """Log-odds moved by the step of each row's bin of the score, the first feature."""
    return np.asarray(log_odds + steps[parts.codes[:, _SCORE]])


def _places(parts: Parts) -> FloatArray:
    """Mean log-odds of each bin of the score, moved and scaled to mean 0 and spread 1 over all rows."""
    code, n_codes = parts.codes[:, _SCORE], int(parts.offset[_SCORE + 1])
    mass = np.bincount(code, parts.count, n_codes)
    mean = np.bincount(code, parts.count * parts.log_odds, n_codes) / np.maximum(mass, 1e-300)
    seen = mass > 0.0
    centre = np.average(mean[seen], weights=mass[seen])
    spread = np.sqrt(np.average((mean[seen] - centre) ** 2, weights=mass[seen]))
    place = np.where(seen, (mean - centre) / (spread if spread > 0.0 else 1.0), 0.0)
    return np.asarray(np.round(place, DECIMALS), dtype=np.float64)


def _line_steps(parts: Parts, place: FloatArray, rows: RowNumbers, log_odds: FloatArray) -> FloatArray:
    """Step of each bin of the score on the line that fits ``rows`` best, by Newton's method with the ridge.

    Behind the score's bins come the codes of all other features, without a step.
    """
    shift = slope = 0.0
    for _ in range(_NEWTON_STEPS):
        step = shift + slope * place
        g, gx, h, hx, hxx = _line_sums(rows, parts.codes, log_odds, parts.count, parts.label, place, step)
        curvature = np.array([[h + _RIDGE, hx], [hx, hxx + _RIDGE]])
        change = np.linalg.solve(curvature, np.array([g - _RIDGE * shift, gx - _RIDGE * slope]))
        # A step of more than one in log-odds at once may overshoot where the sigmoid is flat.
        change /= max(1.0, float(np.abs(change).max()))
        shift, slope = shift + float(change[0]), slope + float(change[1])
        if np.abs(change).max() < _SMALL:
            break
    steps = np.zeros(parts.offset[-1])
    steps[: len(place)] = np.round(shift + slope * place, DECIMALS)
    return steps


@kernel
def _line_sums(
    rows: RowNumbers,
    codes: npt.NDArray[np.uint8],
    log_odds: FloatArray,
    count: FloatArray,
    label: FloatArray,
    place: FloatArray,
    step: FloatArray,
) -> tuple[float, float, float, float, float]:
    """Sums of the gradient and of the curvature, plain and times the place, at log-odds moved by the step."""
    g, gx, h, hx, hxx = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in rows:
        code = codes[i, 0]
        x = place[code]
        z = log_odds[i] + step[code]
        small = np.exp(-abs(z))
        q = (1.0 if z >= 0.0 else small) / (1.0 + small)
        gradient = label[i] - count[i] * q
        curvature = count[i] * q * (1.0 - q)
        g += gradient
        gx += gradient * x
        h += curvature
        hx += curvature * x
        hxx += curvature * x * x
    return g, gx, h, hx, hxx
