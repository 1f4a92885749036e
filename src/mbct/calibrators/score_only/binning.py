"""Histogram binning: the label rate of the score's bin."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import betaln

from mbct.calibrators.score_only.counts import ScoreCounts, edges_between, starts_of_middles, uniform_mass_starts
from mbct.calibrators.score_only.logistic import PlattMap, fit_platt
from mbct.calibrators.score_only.score_map import ScoreCalibrator, ScoreMap, StepMap, is_step_function
from mbct.errors import ParameterError
from mbct.stats.probabilities import EPSILON
from mbct.validation import FloatArray, at_least

Strategy = Literal["uniform-mass", "equal-width"]


class HistogramCalibrator(ScoreCalibrator):
    """Histogram binning, ŷ_b = (Σ_b wy + s·r) / (Σ_b w + s), r the rate of all rows (Zadrozny and Elkan 2001).

    Not monotone: neighbouring rates may fall.

    Parameters
    ----------
    score_column : str, int or None, default=None
        Column of the prediction, by name or number; None where ``X`` is one column or ``y_prob`` is passed to ``fit``.
    n_bins : int, default=15
        Most bins.
    strategy : {"uniform-mass", "equal-width"}, default="uniform-mass"
        Bins of equal weight, equal scores kept together, or of width 1/B, where one without rows gives its middle.
    smoothing : float, default=1.0
        Rows s of the overall rate that are added to each bin, so that none gives 0 or 1; 0 gives plain label rates.

    Attributes
    ----------
    map_ : StepMap
        Edges of the bins and their label rates.
    """

    method = "histogram"
    map_type = StepMap

    def __init__(
        self,
        score_column: str | int | None = None,
        *,
        n_bins: int = 15,
        strategy: Strategy = "uniform-mass",
        smoothing: float = 1.0,
    ):
        self.score_column = score_column
        self.n_bins = n_bins
        self.strategy = strategy
        self.smoothing = smoothing

    def fit_map(self, counts: ScoreCounts) -> StepMap:
        """Label rates of the bins."""
        at_least(1, n_bins=self.n_bins)
        at_least(0, smoothing=self.smoothing)
        added = self.smoothing * np.array([float(np.sum(counts.positive) / np.sum(counts.total)), 1.0])
        if self.strategy == "uniform-mass":
            starts = uniform_mass_starts(counts.total, self.n_bins)
            bins = counts.joined(starts)
            return StepMap(edges_between(counts.score, starts), (bins.positive + added[0]) / (bins.total + added[1]))
        if self.strategy == "equal-width":
            edges = np.arange(1, self.n_bins) / self.n_bins
            number = np.searchsorted(edges, counts.score, side="left")
            positive, total = (np.bincount(number, each, self.n_bins) for each in (counts.positive, counts.total))
            middle = (np.arange(self.n_bins) + 0.5) / self.n_bins
            rates = (positive + added[0]) / np.where(total > 0, total + added[1], 1.0)
            return StepMap(edges, np.where(total > 0, rates, middle))
        raise ParameterError(f"strategy must be 'uniform-mass' or 'equal-width', got {self.strategy!r}")


@dataclass(frozen=True)
class ScalingBinningMap(ScoreMap):
    """Mean of g in the bin of g(p), g = σ(slope·logit + intercept)."""

    expected = "a slope of at least 0, edges that rise and one value from 0 to 1 more than edges"
    slope: float
    intercept: float
    edges: FloatArray
    values: FloatArray

    def is_sound(self) -> bool:
        """Whether the slope does not turn the ranking and there is a rate for each bin."""
        return self.slope >= 0.0 and is_step_function(self.edges, self.values)

    def __call__(self, y_prob: FloatArray) -> FloatArray:
        """Calibrated probabilities."""
        fitted = PlattMap(self.slope, self.intercept)(y_prob)
        return self.values[np.searchsorted(self.edges, fitted, side="left")]


class ScalingBinningCalibrator(ScoreCalibrator):
    """Scaling-binning (Kumar, Liang and Ma 2019): binning with the variance of scaling.

    Platt scaling g on the log-odds, uniform-mass bins of g(p), the mean of g in the bin as output. All three steps
    use all rows, as the authors' package does.

    Parameters
    ----------
    score_column : str, int or None, default=None
        Column of the prediction, by name or number; None where ``X`` is one column or ``y_prob`` is passed to ``fit``.
    n_bins : int, default=15
        Most bins.

    Attributes
    ----------
    map_ : ScalingBinningMap
        Slope and intercept of g, edges of its bins and their means.
    """

    method = "scaling-binning"
    map_type = ScalingBinningMap
    monotone = True

    def __init__(self, score_column: str | int | None = None, *, n_bins: int = 15):
        self.score_column = score_column
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


_NEGLIGIBLE = 1e-12  # Posterior weight, relative to the best model's, below which a model is left out


class BBQCalibrator(ScoreCalibrator):
    """Bayesian binning into quantiles (Naeini, Cooper and Hauskrecht 2015).

    Every number of uniform-mass bins B from n^⅓/C to C·n^⅓ is a model; bin b has a Beta prior of strength N′/B
    around its middle p_b, and B's weight is its marginal likelihood

        Π_b  Beta(m_b + α_b, n_b − m_b + β_b) / Beta(α_b, β_b),   α_b = p_b·N′/B,  β_b = (1 − p_b)·N′/B.

    The output is the weighted mean of the posterior means (m_b + α_b)/(n_b + N′/B): one step function.

    Parameters
    ----------
    score_column : str, int or None, default=None
        Column of the prediction, by name or number; None where ``X`` is one column or ``y_prob`` is passed to ``fit``.
    spread : float, default=10.0
        C, at least 1: how far the numbers of bins range around n^⅓.
    prior_strength : float, default=2.0
        N′, above 0: rows that the priors of all bins together count as.

    Attributes
    ----------
    map_ : StepMap
        The averaged step function.
    """

    method = "bbq"
    map_type = StepMap

    def __init__(self, score_column: str | int | None = None, *, spread: float = 10.0, prior_strength: float = 2.0):
        self.score_column = score_column
        self.spread = spread
        self.prior_strength = prior_strength

    def fit_map(self, counts: ScoreCounts) -> StepMap:
        """Average all binnings."""
        if not self.spread >= 1.0:
            raise ParameterError(f"spread (C) must be at least 1, got {self.spread!r}")
        if not self.prior_strength > 0.0:
            raise ParameterError(f"prior_strength (N′) must be positive, got {self.prior_strength!r}")
        # Running sums, so that a binning costs its number of bins and not that of the scores.
        positive, total = (np.concatenate([[0.0], np.cumsum(c)]) for c in (counts.positive, counts.total))
        root = float(np.sum(counts.total)) ** (1.0 / 3.0)
        fewest = max(1, int(root / self.spread))
        most = max(fewest, min(len(counts), int(root * self.spread)))
        models = [_binning(counts, positive, total, n_bins, self.prior_strength) for n_bins in range(fewest, most + 1)]
        evidence = np.array([model[0] for model in models])
        share = np.exp(evidence - evidence.max())
        kept = [(s, starts, value) for s, (_, starts, value) in zip(share, models, strict=True) if s > _NEGLIGIBLE]
        all_starts = np.unique(np.concatenate([starts for _, starts, _ in kept]))
        mean = np.zeros(len(all_starts))
        for s, starts, value in kept:
            mean += s * value[np.searchsorted(starts, all_starts, side="right") - 1]
        return StepMap(edges_between(counts.score, all_starts), mean / sum(s for s, _, _ in kept))


def _binning(
    counts: ScoreCounts, positives: FloatArray, totals: FloatArray, n_bins: int, prior_strength: float
) -> tuple[float, npt.NDArray[np.intp], FloatArray]:
    """Log marginal likelihood, starts and posterior means of one uniform-mass binning, from running sums."""
    starts = starts_of_middles(totals[1:] - 0.5 * counts.total, float(totals[-1]), n_bins)
    ends = np.append(starts, len(counts))
    total = np.diff(totals[ends])
    # Rounding of running sums must not make a count negative.
    positive = np.clip(np.diff(positives[ends]), 0.0, total)
    edges = np.concatenate([[0.0], edges_between(counts.score, starts), [1.0]])
    middle = np.clip(0.5 * (edges[:-1] + edges[1:]), EPSILON, 1.0 - EPSILON)
    strength = prior_strength / len(starts)
    alpha, beta = strength * middle, strength * (1.0 - middle)
    evidence = np.sum(betaln(positive + alpha, total - positive + beta) - betaln(alpha, beta))
    return float(evidence), starts, (positive + alpha) / (total + strength)
