"""Temperature scaling: one number that makes scores bolder or meeker."""

from dataclasses import dataclass

import numpy as np

from mbct.calibrators.logistic import fit_logistic
from mbct.calibrators.score_counts import ScoreCounts
from mbct.calibrators.score_map import ScoreCalibrator, ScoreMap
from mbct.stats.logodds import logit, sigmoid
from mbct.validation import FloatArray

_HOTTEST = 1000.0
"""Largest temperature: a score that says nothing is flattened, yet keeps its ranking."""


@dataclass(frozen=True)
class TemperatureMap(ScoreMap):
    """σ(logit(p) / temperature)."""

    temperature: float

    def __call__(self, y_prob: FloatArray) -> FloatArray:
        """Calibrated probabilities."""
        return sigmoid(logit(y_prob) / self.temperature)


class TemperatureCalibrator(ScoreCalibrator):
    """Temperature scaling, σ(logit(p)/T), 0 < T ≤ 1000 (Guo et al. 2017).

    It cannot move a score across one half, so it cannot mend a base whose mean is wrong.
    """

    method = "temperature"
    map_type = TemperatureMap
    monotone = True
    strict = True

    def __init__(self, score: str | int | None = None):
        self.score = score

    def fit_map(self, counts: ScoreCounts) -> TemperatureMap:
        """Maximum likelihood in 1/T, where the loss is convex."""
        (inverse,) = fit_logistic(logit(counts.score)[:, None], counts, np.array([1.0]), intercept=False)
        return TemperatureMap(1.0 / max(float(inverse), 1.0 / _HOTTEST))
