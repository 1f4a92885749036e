"""Distance to a smooth calibration curve (ICI, E50, E90), net benefit, and the gain of a cross-fitted critic."""

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from mbct.calibrators.folds import row_keys, stratified_folds
from mbct.calibrators.registry import make
from mbct.data.columns import Columns, read_columns
from mbct.errors import ParameterError
from mbct.evaluation.metrics.calibration_curve import net_benefits
from mbct.evaluation.metrics.resampling import IntervalOptions, prepare
from mbct.evaluation.metrics.results import Estimate
from mbct.evaluation.metrics.rows import Rows, check_count
from mbct.stats.probabilities import log_losses
from mbct.validation import as_column, as_weights


@dataclass(frozen=True, eq=False, repr=False)
class CurveEstimate(Estimate):
    """Integrated calibration index, with the median and the 90th percentile of the same distance."""

    e50: float = 0.0
    """Median of |p − c(p)|."""
    e90: float = 0.0
    """Its 90th percentile."""

    def _details(self) -> str:
        return f"E50 {self.e50:.3g}, E90 {self.e90:.3g}"


@dataclass(frozen=True, eq=False, repr=False)
class CriticEstimate(Estimate):
    """What a critic gained on held-out rows."""

    standard_error: float = 0.0
    """Of the mean gain, from single rows."""

    def _details(self) -> str:
        return f"± {self.standard_error:.2g} (standard error)"


def ici(y_true: Any, y_prob: Any, *, sample_weight: Any = None, **resampling: Unpack[IntervalOptions]) -> CurveEstimate:
    """Integrated calibration index: mean |p − c(p)| to a smooth calibration curve (Austin and Steyerberg 2019).

    The curve c is a monotone spline of five knots in the log-odds; more than 1,000 distinct predictions are first put
    into as many bins of equal weight.

    Parameters
    ----------
    y_true, y_prob, sample_weight, **resampling : as in :mod:`mbct.metrics`
        Rows and the keywords of the interval.

    Returns
    -------
    index : CurveEstimate
        A float with ``interval``, ``e50`` and ``e90``, the median and the 90th percentile of the distance.
    """
    rows, how = prepare(y_true, y_prob, sample_weight, resampling)
    value, e50, e90 = rows.curve_distances
    return how.estimate(
        rows, lambda rows: rows.curve_distances[0], CurveEstimate, value=value, highest=1.0, e50=e50, e90=e90
    )


def net_benefit_at_rate(rows: Rows) -> float:
    """Net benefit at the label rate, where acting on all rows and on none are worth the same: nothing."""
    rate = rows.label_rate
    return float(net_benefits(rows.atoms, np.array([rate]))[0]) if 0.0 < rate < 1.0 else float("nan")


def net_benefit(
    y_true: Any,
    y_prob: Any,
    *,
    threshold: float | None = None,
    sample_weight: Any = None,
    **resampling: Unpack[IntervalOptions],
) -> Estimate:
    """Net benefit of acting where the prediction reaches a threshold (Vickers and Elkin 2006).

    True positives less false positives, each worth t/(1 − t) of a true one, per row. Acting on none is worth 0.

    Parameters
    ----------
    y_true, y_prob, sample_weight, **resampling : as in :mod:`mbct.metrics`
        Rows and the keywords of the interval.
    threshold : float or None, default=None
        Probability from which on one acts, between 0 and 1; None takes the label rate, where acting on all is worth 0.

    Returns
    -------
    benefit : Estimate
        A float with ``interval``.

    Examples
    --------
    >>> float(net_benefit([0, 1, 1, 0], [0.1, 0.8, 0.6, 0.7], threshold=0.5))
    0.25
    """
    if threshold is not None and not 0.0 < threshold < 1.0:
        raise ParameterError(f"threshold must lie between 0 and 1, got {threshold!r}")
    rows, how = prepare(y_true, y_prob, sample_weight, resampling)
    at = np.array([threshold])
    statistic = net_benefit_at_rate if threshold is None else lambda rows: float(net_benefits(rows.atoms, at)[0])
    return how.estimate(rows, statistic, Estimate, lowest=-np.inf, highest=1.0)


def variational_error(
    y_true: Any, y_prob: Any, X: Any = None, *, n_folds: int = 5, sample_weight: Any = None, seed: int = 0
) -> CriticEstimate:
    """Fall of the log loss that a cross-fitted critic finds: a lower bound of the miscalibration, up to noise.

    The critic is LightGBM boosted from the predictions' own log-odds (method ``lightgbm``), fitted on the other folds;
    with columns ``X`` it also finds what hides between segments. Near 0 where nothing is to be gained, below 0 by
    chance.

    Parameters
    ----------
    y_true, y_prob, sample_weight : as in :mod:`mbct.metrics`
        Labels (0 or 1), predicted probabilities and weights of the rows.
    X : frame, mapping, array or None, default=None
        Columns that the critic may see beside the prediction.
    n_folds : int, default=5
        Folds; they depend on what rows hold.
    seed : int, default=0
        Seed of the folds and of the critic.

    Returns
    -------
    error : CriticEstimate
        A float with ``standard_error``.
    """
    check_count("n_folds", n_folds, least=2)
    rows, _ = prepare(y_true, y_prob, sample_weight, {})
    counted = np.flatnonzero(as_weights(sample_weight, len(as_column(y_true, "y_true"))) > 0)
    given = {} if X is None else read_columns(X).take(counted).by_name
    columns = Columns({**given, "prediction": rows.y_prob}, len(rows))
    fold = stratified_folds(row_keys(columns, seed), rows.y_true, n_folds)
    critic = np.empty(len(rows))
    for held_out in (fold == k for k in range(n_folds)):
        model = make("lightgbm", score_column="prediction", random_state=seed)
        train, test = (columns.take(np.flatnonzero(part)).by_name for part in (~held_out, held_out))
        model.fit(train, rows.y_true[~held_out], rows.weight[~held_out])
        critic[held_out] = model.calibrate(test)
    gain = log_losses(rows.y_prob, rows.y_true) - log_losses(critic, rows.y_true)
    value = float(np.average(gain, weights=rows.weight))
    share = rows.weight / rows.weight.sum()
    return CriticEstimate(value, standard_error=float(np.sqrt(np.sum(share**2 * (gain - value) ** 2))))
