"""Histogram binning: the label rate of the score's bin."""

from typing import Literal

import numpy as np

from mbct.calibrators.score_counts import ScoreCounts, edges_between, uniform_mass_starts
from mbct.calibrators.score_map import ScoreCalibrator
from mbct.calibrators.step_map import StepMap
from mbct.errors import ParameterError
from mbct.validation import at_least

Strategy = Literal["uniform-mass", "equal-width"]


class HistogramCalibrator(ScoreCalibrator):
    """Histogram binning, ŷ_b = Σ_b wy / Σ_b w (Zadrozny and Elkan 2001).

    ``strategy`` is ``uniform-mass`` (bins of equal weight, equal scores kept together) or ``equal-width`` (bins
    of width 1/B; one without rows gives its middle). Not monotone: neighbouring rates may fall.
    """

    method = "histogram"
    map_type = StepMap

    def __init__(self, score: str | int | None = None, *, n_bins: int = 15, strategy: Strategy = "uniform-mass"):
        self.score = score
        self.n_bins = n_bins
        self.strategy = strategy

    def fit_map(self, counts: ScoreCounts) -> StepMap:
        """Label rates of the bins."""
        at_least(1, n_bins=self.n_bins)
        if self.strategy == "uniform-mass":
            starts = uniform_mass_starts(counts.total, self.n_bins)
            rates = np.add.reduceat(counts.positive, starts) / np.add.reduceat(counts.total, starts)
            return StepMap(edges_between(counts.score, starts), rates)
        if self.strategy == "equal-width":
            return _equal_width(counts, self.n_bins)
        raise ParameterError(f"strategy must be 'uniform-mass' or 'equal-width', got {self.strategy!r}")


def _equal_width(counts: ScoreCounts, n_bins: int) -> StepMap:
    edges = np.arange(1, n_bins) / n_bins
    bins = np.searchsorted(edges, counts.score, side="left")
    total = np.bincount(bins, counts.total, n_bins)
    middle = (np.arange(n_bins) + 0.5) / n_bins
    positive = np.bincount(bins, counts.positive, n_bins)
    return StepMap(edges, np.where(total > 0, positive / np.where(total > 0, total, 1.0), middle))
