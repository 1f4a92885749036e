"""Tests: two calibrations compared in pairs, totals against predictions, many tests."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, pdtr, pdtrc

from mbct.stats.probabilities import log_loss_of_logodds
from mbct.validation import FloatArray


@dataclass(frozen=True)
class PairedGain:
    """Mean fall of the log loss from the old predictions to the new ones, its standard error, and z = gain / error."""

    gain: float
    error: float

    @property
    def z(self) -> float:
        """Gain in standard errors; 0 where the two predict the same."""
        return self.gain / self.error if self.error > 0.0 else 0.0

    @property
    def p_worse(self) -> float:
        """Chance of a gain this low if the new predictions were as good as the old ones."""
        return 0.5 * math.erfc(-self.z / math.sqrt(2.0))


def paired_gain(old: FloatArray, new: FloatArray, count: FloatArray, label: FloatArray) -> PairedGain:
    """Compare two log-odds for each set of rows, of which ``label`` of ``count`` are positive.

    Every row counts by itself: a positive one gains ℓ(old, 1) − ℓ(new, 1), a negative one ℓ(old, 0) − ℓ(new, 0).

    >>> gain = paired_gain(np.array([0.0]), np.array([1.0]), np.array([4.0]), np.array([4.0]))
    >>> round(gain.gain, 4), gain.error
    (0.3799, 0.0)
    """
    ones, zeros = np.ones(len(count)), np.zeros(len(count))
    if_positive = log_loss_of_logodds(old, ones) - log_loss_of_logodds(new, ones)
    if_negative = log_loss_of_logodds(old, zeros) - log_loss_of_logodds(new, zeros)
    weight = float(count.sum())
    negatives = count - label
    mean = float(np.sum(label * if_positive + negatives * if_negative)) / weight
    square = float(np.sum(label * (if_positive - mean) ** 2 + negatives * (if_negative - mean) ** 2)) / weight
    return PairedGain(mean, math.sqrt(square / weight))


def holm(p_values: FloatArray) -> FloatArray:
    """Holm's step-down p-values: the chance of even one false alarm stays below the level, whatever the dependence.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(6).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    factor = len(p_values) - np.arange(len(p_values))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * factor), 1.0)
    return adjusted


def benjamini_hochberg(p_values: FloatArray) -> FloatArray:
    """Step-up p-values: the expected share of false alarms among all alarms stays below the level.

    >>> benjamini_hochberg(np.array([0.01, 0.04, 0.03])).round(6).tolist()
    [0.03, 0.04, 0.04]
    """
    order = np.argsort(-p_values, kind="stable")
    factor = len(p_values) / (len(p_values) - np.arange(len(p_values)))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.minimum.accumulate(p_values[order] * factor), 1.0)
    return adjusted


CORRECTIONS = {"holm": holm, "benjamini-hochberg": benjamini_hochberg}
"""Corrections by name."""


FEW_EXPECTED = 10.0
"""Below this variance of the number of positives the normal law is too thin in the tails, and Poisson's is used."""


def effective_share(weight: FloatArray) -> float:
    """Σw / Σw²: how many equally weighted rows one unit of weight is worth (Kish); 1 without weights."""
    return float(weight.sum() / np.sum(weight**2))


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
