"""Errors without bins: smooth ECE and ECCE."""

from typing import Any

from mbct.metrics.resampling import Resampling
from mbct.metrics.results import Estimate, ScaledEstimate
from mbct.metrics.rows import read_rows
from mbct.stats.cumulative_error import brownian_range_tail, cumulative_error, cumulative_scale, in_sigmas
from mbct.stats.smooth_error import smooth_error

BROWNIAN_NULL = "the predictions were right (range of Brownian motion)"


def smooth_ece(
    y_true: Any,
    y_prob: Any,
    *,
    sample_weight: Any = None,
    confidence: float | None = None,
    n_bootstrap: int = 200,
    n_null: int = 0,
    seed: int = 0,
) -> Estimate:
    """Smooth ECE (Błasiok & Nakkiran 2023): residuals smoothed by a kernel as wide as the error itself."""
    rows = read_rows(y_true, y_prob, sample_weight)
    return Resampling(confidence, n_bootstrap, n_null, seed).estimate(
        rows, lambda rows: smooth_error(rows.atoms), Estimate
    )


def ecce(
    y_true: Any,
    y_prob: Any,
    *,
    sample_weight: Any = None,
    confidence: float | None = None,
    n_bootstrap: int = 200,
    seed: int = 0,
) -> ScaledEstimate:
    """ECCE = max_k C_k − min_k C_k of the cumulated residuals C_k = (1/n) Σ_{i≤k}(y_i − p_i), sorted by prediction.

    The p-value is that of the range of Brownian motion at ECCE/σ, σ = √(Σw²p(1 − p))/Σw.
    """
    rows = read_rows(y_true, y_prob, sample_weight)
    sigma = cumulative_scale(rows.y_prob, rows.weight)
    value = cumulative_error(rows.atoms)
    return Resampling(confidence, n_bootstrap, 0, seed).estimate(
        rows,
        lambda rows: cumulative_error(rows.atoms),
        ScaledEstimate,
        value=value,
        sigma=sigma,
        p_value=brownian_range_tail(in_sigmas(value, sigma)),
        null=BROWNIAN_NULL,
    )
