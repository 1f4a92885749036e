"""Closed-form intervals of a label rate, for bins and segments too many to resample."""

import numpy as np
from scipy.special import ndtr, ndtri, pdtr, pdtrc

from mbct.errors import ParameterError
from mbct.validation import FloatArray

FEW_EXPECTED = 10.0
"""Below this variance of the number of positives the normal law is too thin in the tails, and Poisson's is used."""


def check_confidence(confidence: float) -> float:
    """A level strictly between 0 and 1."""
    if not 0.0 < confidence < 1.0:
        raise ParameterError(f"confidence must lie between 0 and 1, for example 0.95, got {confidence!r}")
    return float(confidence)


def effective_share(weight: FloatArray) -> float:
    """Σw / Σw²: how many equally weighted rows one unit of weight is worth (Kish); 1 without weights."""
    return float(weight.sum() / np.sum(weight**2))


def wilson_interval(label_rate: FloatArray, size: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Wilson's interval of a rate over ``size`` rows: never outside [0, 1], sensible at 0 and 1.

    >>> low, high = wilson_interval(np.array([0.0, 0.5]), np.array([10.0, 100.0]), 0.95)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.404], [0.278, 0.596])
    """
    z = float(ndtri(0.5 + check_confidence(confidence) / 2.0))
    n = np.maximum(size, 1e-12)
    centre = (label_rate + z * z / (2.0 * n)) / (1.0 + z * z / n)
    half = z / (1.0 + z * z / n) * np.sqrt(label_rate * (1.0 - label_rate) / n + z * z / (4.0 * n * n))
    return np.clip(centre - half, 0.0, 1.0), np.clip(centre + half, 0.0, 1.0)


def total_p_values(label: FloatArray, pred: FloatArray, variance: FloatArray, share: float) -> FloatArray:
    """Two-sided p-value of Σy against Σp as if the predictions were right.

    ``variance`` is Σw²p(1 − p). The normal law where ten or more are expected, else Poisson's, whose tails are wider
    than those of any sum of unequal coins with that mean (Hoeffding 1956). ``share`` turns weights into rows.

    >>> total_p_values(np.array([60.0]), np.array([50.0]), np.array([25.0]), 1.0).round(4).tolist()
    [0.0455]
    """
    normal = 2.0 * ndtr(-np.abs(label - pred) / np.sqrt(np.maximum(variance, 1e-300)))
    seen, expected = label * share, pred * share
    at_most, at_least = pdtr(np.floor(seen), expected), np.where(seen > 0, pdtrc(np.ceil(seen) - 1.0, expected), 1.0)
    poisson = np.minimum(2.0 * np.minimum(at_most, at_least), 1.0)
    return np.asarray(np.where(variance * share**2 >= FEW_EXPECTED, normal, poisson), dtype=np.float64)
