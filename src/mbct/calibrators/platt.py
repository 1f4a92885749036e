"""Platt scaling: a logistic regression on the log-odds of the score."""

from dataclasses import dataclass, replace

import numpy as np

from mbct.calibrators.logistic import fit_logistic
from mbct.calibrators.score_counts import ScoreCounts
from mbct.calibrators.score_map import ScoreCalibrator, ScoreMap
from mbct.stats.logodds import logit, sigmoid
from mbct.validation import FloatArray


@dataclass(frozen=True)
class PlattMap(ScoreMap):
    """σ(slope·logit(p) + intercept)."""

    slope: float
    intercept: float

    def __call__(self, y_prob: FloatArray) -> FloatArray:
        """Calibrated probabilities."""
        return sigmoid(self.slope * logit(y_prob) + self.intercept)


def fit_platt(counts: ScoreCounts) -> PlattMap:
    """Maximum likelihood, slope ≥ 0; ``counts.positive`` may be smoothed."""
    slope, intercept = fit_logistic(logit(counts.score)[:, None], counts, np.array([1.0, 0.0]))
    return PlattMap(float(slope), float(intercept))


def smoothed(counts: ScoreCounts) -> ScoreCounts:
    """Labels 1 and 0 replaced by (N₊+1)/(N₊+2) and 1/(N₋+2), Platt's prior against over-confidence."""
    positives = float(np.sum(counts.positive))
    negatives = float(np.sum(counts.total)) - positives
    high, low = (positives + 1.0) / (positives + 2.0), 1.0 / (negatives + 2.0)
    return replace(counts, positive=counts.positive * high + (counts.total - counts.positive) * low)


class PlattCalibrator(ScoreCalibrator):
    """Platt scaling, σ(a·logit(p) + b), a ≥ 0 (Platt 1999).

    A score that ranks the wrong way round gets a = 0, a constant, instead of a turned ranking; a constant
    score keeps a = 1. ``smooth_targets`` replaces the labels 1 and 0 by (N₊+1)/(N₊+2) and 1/(N₋+2).
    """

    method = "platt"
    map_type = PlattMap
    monotone = True
    strict = True

    def __init__(self, score: str | int | None = None, *, smooth_targets: bool = False):
        self.score = score
        self.smooth_targets = smooth_targets

    def fit_map(self, counts: ScoreCounts) -> PlattMap:
        """Fit slope and intercept."""
        return fit_platt(smoothed(counts) if self.smooth_targets else counts)
