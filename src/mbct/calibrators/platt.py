"""Platt scaling: a logistic regression on the log-odds of the score."""

from dataclasses import dataclass

import numpy as np

from mbct.calibrators.score_map import ScoreCalibrator, ScoreMap
from mbct.stats.logodds import logit, sigmoid
from mbct.validation import FloatArray

_MAX_STEPS = 100
_TOLERANCE = 1e-12


@dataclass(frozen=True)
class PlattMap(ScoreMap):
    """σ(slope·logit(p) + intercept)."""

    slope: float
    intercept: float

    def __call__(self, y_prob: FloatArray) -> FloatArray:
        """Calibrated probabilities."""
        return sigmoid(self.slope * logit(y_prob) + self.intercept)


def fit_platt(y_prob: FloatArray, target: FloatArray, weight: FloatArray) -> PlattMap:
    """Maximum likelihood by Newton's method with step halving; ``target`` may lie between 0 and 1."""
    design = np.column_stack([logit(y_prob), np.ones(len(y_prob))])
    coefficient = np.array([1.0, 0.0])

    def loss(beta: FloatArray) -> float:
        z = design @ beta
        return float(np.sum(weight * (np.logaddexp(0.0, z) - target * z)))

    current = loss(coefficient)
    for _ in range(_MAX_STEPS):
        q = sigmoid(design @ coefficient)
        gradient = design.T @ (weight * (q - target))
        hessian = (design * (weight * q * (1.0 - q))[:, None]).T @ design
        step = np.linalg.lstsq(hessian, gradient, rcond=1e-12)[0]
        scale = 1.0
        while scale > 1e-8 and loss(coefficient - scale * step) > current + 1e-12 * abs(current):
            scale /= 2.0
        coefficient = coefficient - scale * step
        previous, current = current, loss(coefficient)
        if abs(previous - current) <= _TOLERANCE * (abs(current) + _TOLERANCE):
            break
    return PlattMap(float(coefficient[0]), float(coefficient[1]))


class PlattCalibrator(ScoreCalibrator):
    """Platt scaling, σ(a·logit(p) + b) (Platt 1999).

    ``smooth_targets`` replaces the labels 1 and 0 by (N₊+1)/(N₊+2) and 1/(N₋+2), Platt's prior against
    over-confidence on small samples.
    """

    method = "platt"
    map_type = PlattMap

    def __init__(self, score: str | int | None = None, *, smooth_targets: bool = False):
        self.score = score
        self.smooth_targets = smooth_targets

    def fit_map(self, y_prob: FloatArray, y_true: FloatArray, weight: FloatArray) -> PlattMap:
        """Fit slope and intercept."""
        target = y_true
        if self.smooth_targets:
            positives = float(np.sum(weight * y_true))
            negatives = float(np.sum(weight)) - positives
            target = np.where(y_true == 1, (positives + 1) / (positives + 2), 1 / (negatives + 2))
        return fit_platt(y_prob, target, weight)
