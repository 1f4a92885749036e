"""Logistic regression on few features of the score, by Newton's method: the engine of the scaling methods."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from mbct.calibrators.score_only.counts import ScoreCounts
from mbct.calibrators.score_only.score_map import LARGEST_NUMBER, ScoreCalibrator, ScoreMap
from mbct.errors import ParameterError
from mbct.stats.probabilities import EPSILON, logit, sigmoid
from mbct.validation import FloatArray

_MAX_STEPS = 200
_RIDGE = 1e-12
"""Weight of the pull to the start, relative to the rows' weight: too small to see, it makes the optimum unique
where labels are separable or features constant."""
_DECREMENT = 1e-24  # Squared Newton decrement for each unit of weight at which the optimum counts as reached


def fit_logistic(
    features: FloatArray,
    counts: ScoreCounts,
    start: FloatArray,
    *,
    intercept: bool = True,
    precision: FloatArray | None = None,
    offset: float = 0.0,
) -> FloatArray:
    """β ≥ 0 (and an intercept of any sign, last) that maximises the likelihood of σ(offset + features·β + intercept).

    Slopes are held at or above zero so that the map never turns the ranking. ``precision``, a matrix P, adds the
    Gaussian prior ½(β − start)ᵀP(β − start) to the summed log loss. A feature that is constant beside an intercept
    cannot be distinguished from it and keeps its slope of ``start``.

    Projected Newton steps (Bertsekas 1982): slopes that stand at zero and would fall stay there, the others move by
    Newton's method along the projection, halved until the loss falls.

    >>> counts = ScoreCounts(np.array([0.3, 0.6]), np.array([25.0, 50.0]), np.array([100.0, 100.0]))
    >>> fit_logistic(np.log(counts.score / (1 - counts.score))[:, None], counts, np.array([1.0, 0.0])).round(4).tolist()
    [0.877, -0.3556]
    """
    columns = np.ascontiguousarray(np.column_stack([features, np.ones(len(features))]).T if intercept else features.T)
    n_slopes, weight = features.shape[1], float(np.sum(counts.total))
    lowest = np.where(np.arange(len(columns)) < n_slopes, 0.0, -np.inf)
    varies = (np.arange(len(columns)) >= n_slopes) | (np.ptp(columns, axis=1) > 0) | (not intercept)
    pull = _RIDGE * weight * np.eye(len(columns)) + (0.0 if precision is None else precision)

    def objective(beta: FloatArray) -> float:
        z, moved = offset + beta @ columns, beta - start
        loss = float(np.sum(counts.total * np.logaddexp(0.0, z) - counts.positive * z))
        return loss + 0.5 * float(moved @ pull @ moved)

    # From the constant of the label rate, where the curvature is largest: from a start that is far too sure of itself
    # the first step would leap to the other end.
    beta = np.where(varies, 0.0, start)
    if intercept:
        beta[-1] = logit(np.sum(counts.positive) / weight) - offset - float(beta[:-1] @ columns[:-1, 0])
    current = objective(beta)
    for _ in range(_MAX_STEPS):
        q = sigmoid(offset + beta @ columns)
        # Sums instead of products of matrices by BLAS: their order, and so the last bit, does not depend on threads.
        gradient = np.sum(columns * (counts.total * q - counts.positive), axis=1) + pull @ (beta - start)
        free = varies & ((beta > lowest) | (gradient < 0.0))
        if not free.any():
            break
        curvature = counts.total * q * (1.0 - q)
        hessian = np.einsum("in,jn->ij", columns[free] * curvature, columns[free], optimize=False)
        step = np.zeros(len(beta))
        step[free] = np.linalg.solve(hessian + pull[np.ix_(free, free)], gradient[free])
        decrement = float(gradient @ step) / weight
        if decrement <= _DECREMENT:
            break
        scale, moved = 1.0, np.maximum(beta - step, lowest)
        while (found := objective(moved)) > current and scale > 1e-10:
            scale /= 2.0
            moved = np.maximum(beta - scale * step, lowest)
        if found >= current:
            break
        beta, current = moved, found
    return beta


@dataclass(frozen=True)
class PlattMap(ScoreMap):
    """σ(slope·logit(p) + intercept)."""

    expected = "a slope of at least 0"
    slope: float
    intercept: float

    def is_sound(self) -> bool:
        """Whether the slope does not turn the ranking."""
        return self.slope >= 0.0

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
    score keeps a = 1.

    Parameters
    ----------
    score_column : str, int or None, default=None
        Column of the prediction, by name or number; None where ``X`` is one column or ``y_prob`` is passed to ``fit``.
    smooth_targets : bool, default=False
        Whether to replace the labels 1 and 0 by (N₊+1)/(N₊+2) and 1/(N₋+2), as Platt did.

    Attributes
    ----------
    map_ : PlattMap
        ``slope`` a and ``intercept`` b.
    """

    method = "platt"
    map_type = PlattMap
    monotone = True
    strict = True

    def __init__(self, score_column: str | int | None = None, *, smooth_targets: bool = False):
        self.score_column = score_column
        self.smooth_targets = smooth_targets

    def fit_map(self, counts: ScoreCounts) -> PlattMap:
        """Fit slope and intercept."""
        return fit_platt(smoothed(counts) if self.smooth_targets else counts)


_HOTTEST = 1000.0  # Largest temperature: a score that says nothing is flattened, yet keeps its ranking


@dataclass(frozen=True)
class TemperatureMap(ScoreMap):
    """σ(logit(p) / temperature)."""

    expected = "a temperature above 0"
    temperature: float

    def is_sound(self) -> bool:
        """Whether log-odds can be divided by it."""
        return self.temperature >= 1.0 / LARGEST_NUMBER

    def __call__(self, y_prob: FloatArray) -> FloatArray:
        """Calibrated probabilities."""
        return sigmoid(logit(y_prob) / self.temperature)


class TemperatureCalibrator(ScoreCalibrator):
    """Temperature scaling, σ(logit(p)/T), 0 < T ≤ 1000 (Guo et al. 2017).

    It cannot move a score across one half, so it cannot correct a base whose mean is wrong.

    Parameters
    ----------
    score_column : str, int or None, default=None
        Column of the prediction, by name or number; None where ``X`` is one column or ``y_prob`` is passed to ``fit``.

    Attributes
    ----------
    map_ : TemperatureMap
        ``temperature`` T.
    """

    method = "temperature"
    map_type = TemperatureMap
    monotone = True
    strict = True

    def fit_map(self, counts: ScoreCounts) -> TemperatureMap:
        """Maximum likelihood in 1/T, where the loss is convex."""
        (inverse,) = fit_logistic(logit(counts.score)[:, None], counts, np.array([1.0]), intercept=False)
        return TemperatureMap(1.0 / max(float(inverse), 1.0 / _HOTTEST))


Variant = Literal["abm", "ab", "am"]


@dataclass(frozen=True)
class BetaMap(ScoreMap):
    """σ(a·ln p − b·ln(1 − p) + c)."""

    expected = "a and b of at least 0"
    a: float
    b: float
    c: float

    def is_sound(self) -> bool:
        """Whether neither slope turns the ranking."""
        return min(self.a, self.b) >= 0.0

    def __call__(self, y_prob: FloatArray) -> FloatArray:
        """Calibrated probabilities."""
        log_p, minus_log_rest = _log_parts(y_prob)
        return sigmoid(self.a * log_p + self.b * minus_log_rest + self.c)


def _log_parts(y_prob: FloatArray) -> tuple[FloatArray, FloatArray]:
    p = np.clip(y_prob, EPSILON, 1.0 - EPSILON)
    return np.log(p), -np.log1p(-p)


class BetaCalibrator(ScoreCalibrator):
    """Beta calibration, σ(a·ln p − b·ln(1−p) + c), a, b ≥ 0 (Kull, Silva Filho and Flach 2017).

    Parameters
    ----------
    score_column : str, int or None, default=None
        Column of the prediction, by name or number; None where ``X`` is one column or ``y_prob`` is passed to ``fit``.
    variant : {"abm", "ab", "am"}, default="abm"
        The free parameters: "abm" all three; "ab" holds the midpoint m at one half, so that c = (a − b)·ln 2; "am"
        holds a = b, which is Platt scaling on the log-odds.

    Attributes
    ----------
    map_ : BetaMap
        ``a``, ``b`` and ``c``.
    """

    method = "beta"
    map_type = BetaMap
    monotone = True
    strict = True

    def __init__(self, score_column: str | int | None = None, *, variant: Variant = "abm"):
        self.score_column = score_column
        self.variant = variant

    def fit_map(self, counts: ScoreCounts) -> BetaMap:
        """Maximum likelihood with a and b at or above zero."""
        if self.variant == "am":
            line = fit_platt(counts)
            return BetaMap(line.slope, line.slope, line.intercept)
        parts = np.column_stack(_log_parts(counts.score))
        if self.variant == "abm":
            a, b, c = fit_logistic(parts, counts, np.array([1.0, 1.0, 0.0])).tolist()
            return BetaMap(a, b, c)
        if self.variant == "ab":
            centred = parts + np.array([math.log(2.0), -math.log(2.0)])
            a, b = fit_logistic(centred, counts, np.array([1.0, 1.0]), intercept=False).tolist()
            return BetaMap(a, b, (a - b) * math.log(2.0))
        raise ParameterError(f"variant must be 'abm', 'ab' or 'am', got {self.variant!r}")
