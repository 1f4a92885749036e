"""Scaling-binning: Platt scaling, then the mean fitted value of a uniform-mass bin."""

from dataclasses import dataclass

import numpy as np

from mbct.calibrators.platt import PlattMap, fit_platt
from mbct.calibrators.score_counts import ScoreCounts, edges_between, uniform_mass_starts
from mbct.calibrators.score_map import ScoreCalibrator, ScoreMap
from mbct.validation import FloatArray, at_least


@dataclass(frozen=True)
class ScalingBinningMap(ScoreMap):
    """Mean of g in the bin of g(p), g = σ(slope·logit + intercept)."""

    slope: float
    intercept: float
    edges: FloatArray
    values: FloatArray

    def __call__(self, y_prob: FloatArray) -> FloatArray:
        """Calibrated probabilities."""
        fitted = PlattMap(self.slope, self.intercept)(y_prob)
        return self.values[np.searchsorted(self.edges, fitted, side="left")]


class ScalingBinningCalibrator(ScoreCalibrator):
    """Scaling-binning (Kumar, Liang and Ma 2019): binning with the variance of scaling.

    Platt scaling g on the log-odds, uniform-mass bins of g(p), the mean of g in the bin as output. All three steps
    use all rows, as the authors' package does.
    """

    method = "scaling-binning"
    map_type = ScalingBinningMap
    monotone = True

    def __init__(self, score: str | int | None = None, *, n_bins: int = 15):
        self.score = score
        self.n_bins = n_bins

    def fit_map(self, counts: ScoreCounts) -> ScalingBinningMap:
        """Fit g, then its bins."""
        at_least(1, n_bins=self.n_bins)
        scaling = fit_platt(counts)
        fitted, group = np.unique(scaling(counts.score), return_inverse=True)
        total = np.bincount(group, counts.total).astype(np.float64)
        starts = uniform_mass_starts(total, self.n_bins)
        values = np.add.reduceat(total * fitted, starts) / np.add.reduceat(total, starts)
        edges = edges_between(fitted, starts)
        return ScalingBinningMap(scaling.slope, scaling.intercept, edges, np.maximum.accumulate(values))
