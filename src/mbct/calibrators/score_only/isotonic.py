"""Isotonic regression: the best non-decreasing map, and a strictly increasing one made from its blocks."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from sklearn.isotonic import isotonic_regression

from mbct.calibrators.score_only.counts import ScoreCounts
from mbct.calibrators.score_only.score_map import LinearMap, ScoreCalibrator
from mbct.calibrators.score_only.spline import AffineCalibrator
from mbct.stats.probabilities import logit, sigmoid
from mbct.validation import FloatArray, at_least

_STEPS = 40
"""Newton's steps for the rates of blocks: log-odds lie within ±21, a step covers 2 and the last ones converge fast."""


def pool(rate: FloatArray, weight: FloatArray) -> FloatArray:
    """Non-decreasing rates nearest to the observed ones in weighted squares (pool adjacent violators)."""
    fitted = isotonic_regression(rate, sample_weight=weight, y_min=0.0, y_max=1.0)
    return np.asarray(np.maximum.accumulate(fitted), dtype=np.float64)


def blocks_with_prior(counts: ScoreCounts, smoothing: float) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Where each block of the isotonic fit begins, and its rate under a prior around the affine fit.

    The log-odds u of a block of weight W with Σy positives maximise u·Σy − W·ln(1 + eᵘ) − ½·smoothing·(u − c)²; c
    are the log-odds of the regularised affine fit's mean in the block; rates that fall by this are pooled once more.
    """
    at_least(0, smoothing=smoothing)
    value = pool(counts.rate, counts.total)
    starts: npt.NDArray[np.intp] = np.flatnonzero(np.concatenate([[True], value[1:] > value[:-1]]))
    if smoothing == 0:
        return starts, value[starts]
    blocks = counts.joined(starts)
    weight = blocks.total
    affine = replace(counts, score=AffineCalibrator().fit_map(counts)(counts.score))
    centre = logit(affine.joined(starts).score)
    log_odds = centre
    for _ in range(_STEPS):
        rate = sigmoid(log_odds)
        gradient = weight * rate - blocks.positive + smoothing * (log_odds - centre)
        # Newton's step, held to a distance over which the curvature keeps its size.
        log_odds = log_odds - np.clip(gradient / (weight * rate * (1.0 - rate) + smoothing), -2.0, 2.0)
    value = pool(sigmoid(log_odds), weight)
    rises = np.concatenate([[True], value[1:] > value[:-1]])
    return starts[rises], value[rises]


class IsotonicCalibrator(ScoreCalibrator):
    """Isotonic regression (Zadrozny and Elkan 2002), kept from 0 and 1.

    Constant on blocks of scores, straight between blocks, constant beyond the scores seen. The log-odds of each block
    have a normal prior around those of affine scaling: a few rows of one class, as the outer blocks often hold, are no
    proof of a rate of 0 or 1, which log loss punishes without bound.

    Parameters
    ----------
    score_column : str, int or None, default=None
        Column of the prediction, by name or number; None where ``X`` is one column or ``y_prob`` is passed to ``fit``.
    smoothing : float, default=1.0
        Precision of the prior, 1/variance in log-odds; 0 is scikit-learn's isotonic regression.

    Attributes
    ----------
    map_ : LinearMap
        Ends of the blocks and their rates.
    """

    method = "isotonic"
    map_type = LinearMap
    monotone = True

    def __init__(self, score_column: str | int | None = None, *, smoothing: float = 1.0):
        self.score_column = score_column
        self.smoothing = smoothing

    def fit_map(self, counts: ScoreCounts) -> LinearMap:
        """Pool violators; of each block only the two ends are kept."""
        starts, value = blocks_with_prior(counts, self.smoothing)
        last = np.append(starts[1:], len(counts)) - 1
        several = last > starts
        ends = np.column_stack([counts.score[starts], counts.score[last]]).ravel()
        kept = np.column_stack([np.ones(len(starts), dtype=bool), several]).ravel()
        return LinearMap(ends[kept], np.repeat(value, 2)[kept])


class CentredIsotonicCalibrator(IsotonicCalibrator):
    """Centred isotonic regression (Oron and Flournoy 2017): strictly increasing on the whole of [0, 1].

    Each block of the isotonic fit becomes one knot at its mean score, with straight lines between; beyond the outermost
    knots the lines run to (0, 0) and (1, 1).

    Parameters
    ----------
    score_column : str, int or None, default=None
        Column of the prediction, by name or number; None where ``X`` is one column or ``y_prob`` is passed to ``fit``.
    smoothing : float, default=1.0
        Precision of the prior around affine scaling, as of ``isotonic``; it keeps rates from 0 and 1.

    Attributes
    ----------
    map_ : LinearMap
        Knots and their rates.
    """

    method = "centred-isotonic"
    strict = True

    def fit_map(self, counts: ScoreCounts) -> LinearMap:
        """Pool violators, then join the centres of the blocks."""
        starts, knot = blocks_with_prior(counts, self.smoothing)
        centre = counts.joined(starts).score
        # Centres of neighbouring blocks can coincide only by rounding; the ends may already be knots.
        keep = np.concatenate([[True], np.diff(centre) > 0])
        centre, knot = centre[keep], knot[keep]
        if centre[0] > 0.0:
            centre, knot = np.concatenate([[0.0], centre]), np.concatenate([[0.0], knot])
        if centre[-1] < 1.0:
            centre, knot = np.concatenate([centre, [1.0]]), np.concatenate([knot, [1.0]])
        return LinearMap(centre, knot)
