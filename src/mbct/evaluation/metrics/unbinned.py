"""Errors without bins: smooth ECE and ECCE."""

from typing import Any, Unpack

from mbct.evaluation.metrics.resampling import IntervalOptions, NullOptions, prepare
from mbct.evaluation.metrics.results import Estimate, ScaledEstimate
from mbct.stats.expected_error import brownian_range_tail, cumulative_error, cumulative_scale, in_sigmas, smooth_error

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
