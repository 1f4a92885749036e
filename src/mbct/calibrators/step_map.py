"""Piecewise maps of the score: constant within bins, or straight between knots."""

from dataclasses import dataclass

import numpy as np

from mbct.calibrators.score_map import ScoreMap
from mbct.validation import FloatArray


@dataclass(frozen=True)
class StepMap(ScoreMap):
    """One value for each bin; an edge belongs to the bin below it.

    >>> StepMap(np.array([0.5]), np.array([0.1, 0.8]))(np.array([0.0, 0.5, 0.6])).tolist()
    [0.1, 0.1, 0.8]
    """

    edges: FloatArray
    values: FloatArray

    def __call__(self, y_prob: FloatArray) -> FloatArray:
        """Calibrated probabilities."""
        return self.values[np.searchsorted(self.edges, y_prob, side="left")]


@dataclass(frozen=True)
class LinearMap(ScoreMap):
    """Straight lines between knots, constant beyond the outermost; never falls where the values do not.

    >>> LinearMap(np.array([0.2, 0.4]), np.array([0.1, 0.2]))(np.array([0.0, 0.3, 1.0])).round(6).tolist()
    [0.1, 0.15, 0.2]
    """

    knots: FloatArray
    values: FloatArray

    def __call__(self, y_prob: FloatArray) -> FloatArray:
        """Calibrated probabilities."""
        if len(self.knots) == 1:
            return np.full(len(y_prob), self.values[0])
        left = np.clip(np.searchsorted(self.knots, y_prob, side="right") - 1, 0, len(self.knots) - 2)
        x0, x1 = self.knots[left], self.knots[left + 1]
        v0, v1 = self.values[left], self.values[left + 1]
        # The share of the way is taken first: a slope over a gap of 1e-300 would overflow.
        share = (np.clip(y_prob, x0, x1) - x0) / (x1 - x0)
        # Rounding must not carry the line past its end, or the map would fall at a knot.
        return np.minimum(v0 + share * (v1 - v0), np.maximum(v0, v1))
