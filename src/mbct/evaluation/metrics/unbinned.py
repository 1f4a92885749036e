"""Errors without bins: smooth ECE, ECCE and, where the probabilities are known, the true calibration error."""

from typing import Any, Unpack

from mbct.evaluation.metrics.resampling import IntervalOptions, NullOptions, prepare
from mbct.evaluation.metrics.results import Estimate, ScaledEstimate
from mbct.evaluation.metrics.rows import check_norm
from mbct.stats.expected_error import brownian_range_tail, cumulative_error, cumulative_scale, in_sigmas, smooth_error
from mbct.stats.partition_error import true_calibration_error
from mbct.validation import as_probabilities, as_weights, same_length


def tce(truth: Any, y_prob: Any, *, norm: float = 2, sample_weight: Any = None) -> Estimate:
    """TCE_p = (E|E[Y|X] − f(X)|^p)^{1/p}, equation (tce), for data whose probabilities are known.

    Parameters
    ----------
    truth, y_prob : array
        True probabilities E[Y|X] of the rows, and predicted ones.
    norm : float, default=2
        The norm p, from 1 to ``math.inf``.
    sample_weight : array, number or None, default=None
        Weights of the rows; None counts each row once.

    Returns
    -------
    error : Estimate
        A float with ``interval``.

    Examples
    --------
    >>> float(tce([0.25, 0.5], [0.5, 0.5], norm=1))
    0.125
    """
    known, p = as_probabilities(truth, "truth"), as_probabilities(y_prob)
    same_length(len(known), y_prob=p)
    return Estimate(true_calibration_error(known, p, as_weights(sample_weight, len(p)), check_norm(norm)))


BROWNIAN_NULL = "the predictions were right (range of Brownian motion)"


def smooth_ece(y_true: Any, y_prob: Any, *, sample_weight: Any = None, **resampling: Unpack[NullOptions]) -> Estimate:
    """Smooth ECE (Błasiok & Nakkiran 2023): residuals smoothed by a kernel as wide as the error itself.

    Parameters
    ----------
    y_true, y_prob, sample_weight, **resampling : as in :mod:`mbct.metrics`
        Rows, and keywords of the interval and of the p-value.

    Returns
    -------
    error : Estimate
        A float with ``interval`` and ``p_value``.
    """
    rows, how = prepare(y_true, y_prob, sample_weight, resampling)
    return how.estimate(rows, lambda rows: smooth_error(rows.atoms), Estimate)


def ecce(
    y_true: Any, y_prob: Any, *, sample_weight: Any = None, **resampling: Unpack[IntervalOptions]
) -> ScaledEstimate:
    """ECCE = max_k C_k − min_k C_k of the cumulated residuals C_k = (1/n) Σ_{i≤k}(y_i − p_i), sorted by prediction.

    The p-value is that of the range of Brownian motion at ECCE/σ, σ = √(Σw²p(1 − p))/Σw. It takes rows for independent:
    with ``time`` or ``groups`` there is none.

    Parameters
    ----------
    y_true, y_prob, sample_weight, **resampling : as in :mod:`mbct.metrics`
        Rows, and keywords of the interval.

    Returns
    -------
    error : ScaledEstimate
        A float with ``interval``, ``p_value``, ``sigma`` and ``scaled`` = ECCE/σ.
    """
    rows, how = prepare(y_true, y_prob, sample_weight, resampling)
    sigma = cumulative_scale(rows.y_prob, rows.weight)
    value = cumulative_error(rows.atoms)
    known = rows.blocks is None
    return how.estimate(
        rows,
        lambda rows: cumulative_error(rows.atoms),
        ScaledEstimate,
        value=value,
        sigma=sigma,
        p_value=brownian_range_tail(in_sigmas(value, sigma)) if known else None,
        null=BROWNIAN_NULL if known else None,
    )
