"""Beta calibration: log-odds linear in log p and log(1 − p)."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mbct.calibrators.logistic import fit_logistic
from mbct.calibrators.score_counts import ScoreCounts
from mbct.calibrators.score_map import ScoreCalibrator, ScoreMap
from mbct.errors import ParameterError
from mbct.stats.logodds import EPSILON, logit, sigmoid
from mbct.validation import FloatArray

Variant = Literal["abm", "ab", "am"]


@dataclass(frozen=True)
class BetaMap(ScoreMap):
    """σ(a·ln p − b·ln(1 − p) + c)."""

    a: float
    b: float
    c: float

    def __call__(self, y_prob: FloatArray) -> FloatArray:
        """Calibrated probabilities."""
        log_p, minus_log_rest = _log_parts(y_prob)
        return sigmoid(self.a * log_p + self.b * minus_log_rest + self.c)


def _log_parts(y_prob: FloatArray) -> tuple[FloatArray, FloatArray]:
    p = np.clip(y_prob, EPSILON, 1.0 - EPSILON)
    return np.log(p), -np.log1p(-p)


class BetaCalibrator(ScoreCalibrator):
    """Beta calibration, σ(a·ln p − b·ln(1−p) + c), a, b ≥ 0 (Kull, Silva Filho and Flach 2017).

    ``variant`` names the free parameters: ``abm`` all three; ``ab`` holds the midpoint m at one half, so that
    c = (a − b)·ln 2; ``am`` holds a = b, which is Platt scaling on the log-odds.
    """

    method = "beta"
    map_type = BetaMap
    monotone = True
    strict = True

    def __init__(self, score: str | int | None = None, *, variant: Variant = "abm"):
        self.score = score
        self.variant = variant

    def fit_map(self, counts: ScoreCounts) -> BetaMap:
        """Maximum likelihood with a and b at or above zero."""
        if self.variant == "am":
            slope, c = fit_logistic(logit(counts.score)[:, None], counts, np.array([1.0, 0.0])).tolist()
            return BetaMap(slope, slope, c)
        parts = np.column_stack(_log_parts(counts.score))
        if self.variant == "abm":
            a, b, c = fit_logistic(parts, counts, np.array([1.0, 1.0, 0.0])).tolist()
            return BetaMap(a, b, c)
        if self.variant == "ab":
            centred = parts + np.array([math.log(2.0), -math.log(2.0)])
            a, b = fit_logistic(centred, counts, np.array([1.0, 1.0]), intercept=False).tolist()
            return BetaMap(a, b, (a - b) * math.log(2.0))
        raise ParameterError(f"variant must be 'abm', 'ab' or 'am', got {self.variant!r}")
