"""A line in the log-odds: before any tree, the score as a whole is stretched and shifted, as Platt scaling does it.

A base that is over-confident everywhere would cost the trees dozens of rounds to say what two numbers say. The line is
a step for each bin of the score, k_c = a + b·z̄_c with z̄_c the bin's mean log-odds, so that the model stays a sum of
leaf steps. With two numbers only it can also be told from chance where trees cannot.
"""

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.boosting.effects import DECIMALS, Effects
from mbct.boosting.parts import Parts, summed_log_loss
from mbct.jit import kernel
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
    """A line fitted on all rows, and how much of it to keep: 1 − 2/χ², or nothing where chance gives as much."""

    line: Effects
    trust: float


def fit_line(parts: Parts, n_folds: int, pool: Executor, start: Effects | None = None) -> Effects | None:
    """The folds' lines after ``start``, each fitted on the other folds' rows; None where rows left out gain nothing."""
    if _SCORE not in parts.usable:
        return None
    place = _places(parts)
    starts = (parts.log_odds,) * n_folds if start is None else start.log_odds
    grown_on = [np.flatnonzero(parts.fold != fold).astype(np.int32) for fold in range(n_folds)]
    left_out = [np.flatnonzero(parts.fold == fold).astype(np.int32) for fold in range(n_folds)]
    steps = list(pool.map(lambda rows, z: _line_steps(parts, place, rows, z), grown_on, starts))
    log_odds = tuple(z + step[parts.codes[:, _SCORE]] for z, step in zip(starts, steps, strict=True))
    loss, base = (
        sum(_loss(parts, rows, z) for rows, z in zip(left_out, moved, strict=True)) for moved in (log_odds, starts)
    )
    if loss >= base:
        return None
    line = _effects(parts, steps, log_odds, loss / float(parts.count.sum()))
    return line if start is None else start.and_then(line)


def line_beyond_chance(parts: Parts) -> SureLine | None:
    """The line of all rows where a likelihood-ratio test tells it from chance."""
    if _SCORE not in parts.usable:
        return None
    rows = np.arange(len(parts.count), dtype=np.int32)
    steps = _line_steps(parts, _places(parts), rows, parts.log_odds)
    log_odds = parts.log_odds + steps[parts.codes[:, _SCORE]]
    loss = _loss(parts, rows, log_odds)
    chi_square = 2.0 * (_loss(parts, rows, parts.log_odds) - loss)
    if chi_square < _NOT_CHANCE:
        return None
    line = _effects(parts, [steps], (log_odds,), loss / float(parts.count.sum()))
    return SureLine(line, 1.0 - 2.0 / chi_square)


def _effects(parts: Parts, steps: list[FloatArray], log_odds: tuple[FloatArray, ...], loss: float) -> Effects:
    """The lines as effects of the score's bins, the other features without any."""
    padded = tuple(np.pad(step, (0, int(parts.offset[-1]) - len(step))) for step in steps)
    return Effects((_SCORE,), padded, (0.0,) * len(steps), log_odds, loss)


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


def _line_steps(parts: Parts, place: FloatArray, rows: npt.NDArray[np.int32], log_odds: FloatArray) -> FloatArray:
    """Step of each bin of the score on the line that fits ``rows`` best: Newton's method with the ridge."""
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
    return np.asarray(np.round(shift + slope * place, DECIMALS))


def _loss(parts: Parts, rows: npt.NDArray[np.int32], log_odds: FloatArray) -> float:
    return summed_log_loss(rows, log_odds, parts.count, parts.label)


@kernel
def _line_sums(
    rows: npt.NDArray[np.int32],
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
