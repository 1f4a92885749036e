"""Monotone splines in the log-odds: affine and quadratic scaling, and splines whose knots cross-validation chooses.

g(z) = z̄ + b + ∫ s(t) dt from z̄ to z, z = logit(p): the slope s is linear between knots and constant beyond them, so g
is affine with one knot, quadratic with two. Slopes at or above zero keep g from falling. Slopes of 1 and b = 0 are the
identity, to which a Gaussian prior draws the fit: small samples move little, large ones are not held back.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mbct.calibrators.score_only.counts import ScoreCounts, held_out_folds, uniform_mass_starts
from mbct.calibrators.score_only.logistic import fit_logistic
from mbct.calibrators.score_only.score_map import ScoreCalibrator, ScoreMap, rises
from mbct.stats.probabilities import log_loss_of_logodds, logit, sigmoid
from mbct.validation import FloatArray, at_least

_KNOTS = (1, 2, 3, 5, 8)  # Numbers of knots that are tried: affine, quadratic, and what more rows may support
_TAIL = 0.05
"""Share of the rows beyond the outer knots, where the spline is a straight line (Harrell 2015, section 2.4.6)."""
_MOST_SCORES = 2048  # Scores among which knots are chosen; more are put into as many bins of equal weight


@dataclass(frozen=True)
class SplineMap(ScoreMap):
    """σ(centre + shift + ∫ s), s linear between ``knots`` (log-odds) with the values ``slopes``, from ``centre``."""

    expected = f"1 to {_KNOTS[-1]} knots that rise and as many slopes of at least 0"
    centre: float
    shift: float
    knots: FloatArray
    slopes: FloatArray

    def is_sound(self) -> bool:
        """Whether there is a slope for each knot, and none turns the ranking."""
        fits = 0 < len(self.knots) == len(self.slopes) <= _KNOTS[-1]
        return fits and rises(self.knots) and bool(np.all(self.slopes >= 0.0))

    def __call__(self, y_prob: FloatArray) -> FloatArray:
        """Calibrated probabilities."""
        return sigmoid(self.log_odds(logit(y_prob)))

    def log_odds(self, z: FloatArray) -> FloatArray:
        """Calibrated log-odds of log-odds."""
        parts = _integrated_hats(z, self.knots) - _integrated_hats(np.array([self.centre]), self.knots)
        total = np.full(len(z), self.centre + self.shift)
        # Knot by knot instead of one product of matrices: a row's result does not depend on its neighbours.
        for j, slope in enumerate(self.slopes):
            total += slope * parts[:, j]
        return total


def _integrated_hats(z: FloatArray, knots: FloatArray) -> FloatArray:
    """∫ of each knot's share of the slope, up to z: column j is the area under the hat of knot j.

    >>> _integrated_hats(np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0])).tolist()
    [[0.0, 0.0], [0.75, 0.25], [1.0, 2.0]]
    """
    area = np.zeros((len(z), len(knots)))
    area[:, 0] += np.minimum(z - knots[0], 0.0) if len(knots) > 1 else z - knots[0]
    if len(knots) > 1:
        area[:, -1] += np.maximum(z - knots[-1], 0.0)
    for j, (left, right) in enumerate(pairwise(knots)):
        inside = np.clip(z, left, right) - left
        rising = 0.5 * inside * inside / (right - left)
        area[:, j] += inside - rising
        area[:, j + 1] += rising
    return area


def fit_spline(counts: ScoreCounts, knots: FloatArray, penalty: float) -> SplineMap:
    """Penalised maximum likelihood with slopes at or above zero.

    In log-odds, the shift at the mean and the mean slope have priors N(0, 1/penalty) and N(1, 1/penalty); from the
    first knot to the last the slope is a random walk whose end has variance 1/penalty, whatever the number of knots.
    """
    z, n = logit(counts.score), len(knots)
    centre = float(np.sum(counts.total * z) / np.sum(counts.total))
    parts = _integrated_hats(z, knots) - _integrated_hats(np.array([centre]), knots)
    steps = np.diff(np.eye(n), axis=0)
    precision = np.zeros((n + 1, n + 1))
    precision[:n, :n] = penalty * (np.full((n, n), 1.0 / n**2) + (n - 1) * steps.T @ steps)
    precision[n, n] = penalty
    beta = fit_logistic(parts, counts, np.append(np.ones(n), 0.0), precision=precision, offset=centre)
    return SplineMap(centre, float(beta[-1]), knots, beta[:-1])


def mass_knots(counts: ScoreCounts, n_knots: int) -> FloatArray:
    """``n_knots`` quantiles of the log-odds from one tail to the other; fewer where they coincide."""
    share = np.linspace(_TAIL, 1.0 - _TAIL, n_knots) if n_knots > 1 else np.array([0.5])
    return np.unique(np.interp(share * np.sum(counts.total), counts.middles, logit(counts.score)))


class AffineCalibrator(ScoreCalibrator):
    """Affine scaling, σ(a·logit(p) + b), a ≥ 0: Platt scaling with a prior at the identity.

    Parameters
    ----------
    score_column : str, int or None, default=None
        Column of the prediction, by name or number; None where ``X`` is one column or ``y_prob`` is passed to ``fit``.
    penalty : float, default=1.0
        Precision of the prior: the shift at the mean log-odds and the slope have variance 1/penalty around 0 and 1.
        0 is maximum likelihood, as ``platt``.

    Attributes
    ----------
    map_ : SplineMap
        Of one knot.
    """

    method = "affine"
    map_type = SplineMap
    monotone = True
    strict = True

    def __init__(self, score_column: str | int | None = None, *, penalty: float = 1.0):
        self.score_column = score_column
        self.penalty = penalty

    def fit_map(self, counts: ScoreCounts) -> SplineMap:
        """Fit shift and slope."""
        at_least(0, penalty=self.penalty)
        return fit_spline(counts, mass_knots(counts, 1), self.penalty)


class QuadraticCalibrator(AffineCalibrator):
    """Quadratic scaling, σ(a + b·logit(p) + c·logit(p)²) (Berta, Holzmüller, Jordan and Bach 2025), kept from falling.

    The slope is held at or above zero between the lowest and the highest score of the fit and is constant beyond.

    Parameters
    ----------
    score_column : str, int or None, default=None
        Column of the prediction, by name or number; None where ``X`` is one column or ``y_prob`` is passed to ``fit``.
    penalty : float, default=1.0
        Precision of the prior: the shift at the mean log-odds, the mean slope and the change of the slope from end to
        end have variance 1/penalty around 0, 1 and 0. 0 is maximum likelihood.

    Attributes
    ----------
    map_ : SplineMap
        Of two knots, the lowest and the highest score.
    """

    method = "quadratic"

    def fit_map(self, counts: ScoreCounts) -> SplineMap:
        """Fit shift and both slopes."""
        at_least(0, penalty=self.penalty)
        z = logit(counts.score)
        return fit_spline(counts, z[[0, -1]] if z[-1] > z[0] else z[:1], self.penalty)


class SplineCalibrator(ScoreCalibrator):
    """Monotone spline in the log-odds, straight in the tails, with as many knots as held-out scores support.

    Knots are quantiles of the scores. With one the spline is affine, with two quadratic; the number with the lowest
    log loss on folds of whole scores is taken, the smallest where folds would be too small to tell.

    Parameters
    ----------
    score_column : str, int or None, default=None
        Column of the prediction, by name or number; None where ``X`` is one column or ``y_prob`` is passed to ``fit``.
    penalty : float, default=1.0
        Precision of the prior, as of ``quadratic``; the slope is a random walk from knot to knot.
    n_folds : int, default=5
        Folds of held-out scores, at least 2.
    random_state : int, default=0
        Seed of the folds.

    Attributes
    ----------
    map_ : SplineMap
        Knots in log-odds, the slope at each, and the shift at the mean.
    """

    method = "spline"
    map_type = SplineMap
    monotone = True
    strict = True

    def __init__(
        self, score_column: str | int | None = None, *, penalty: float = 1.0, n_folds: int = 5, random_state: int = 0
    ):
        self.score_column = score_column
        self.penalty = penalty
        self.n_folds = n_folds
        self.random_state = random_state

    def fit_map(self, counts: ScoreCounts) -> SplineMap:
        """Choose the knots on held-out scores, then fit on all."""
        at_least(0, penalty=self.penalty)
        at_least(2, n_folds=self.n_folds)
        few = counts
        if len(counts) > _MOST_SCORES:
            few = counts.joined(uniform_mass_starts(counts.total, _MOST_SCORES))
        return fit_spline(counts, mass_knots(counts, self._n_knots(few)), self.penalty)

    def _n_knots(self, counts: ScoreCounts) -> int:
        folds = held_out_folds(counts, self.n_folds, self.random_state)
        if folds is None:
            return _KNOTS[0]
        losses = np.zeros(len(_KNOTS))
        for rest, held_out in folds:
            test = counts.take(held_out)
            for i, n_knots in enumerate(_KNOTS):
                z = fit_spline(rest, mass_knots(rest, n_knots), self.penalty).log_odds(logit(test.score))
                losses[i] += np.sum(test.total * log_loss_of_logodds(z, test.rate))
        return _KNOTS[int(np.argmin(losses))]
