"""Probabilities as log-odds."""

from typing import Any

import numpy as np

from mbct.jit import kernel
from mbct.validation import FloatArray

EPSILON = 1e-9
"""Predictions are kept this far from 0 and 1 before their logarithm is taken; log-odds stay within ±20.7."""


def logit(probability: Any) -> FloatArray:
    """log(p / (1 − p)), with p held inside [ε, 1 − ε].

    >>> logit([0.5, 0.75]).round(4).tolist()
    [0.0, 1.0986]
    """
    p = np.clip(np.asarray(probability, dtype=np.float64), EPSILON, 1.0 - EPSILON)
    return np.asarray(np.log(p) - np.log1p(-p), dtype=np.float64)


def sigmoid(log_odds: Any) -> FloatArray:
    """1 / (1 + exp(−z)), without overflow at either end.

    >>> sigmoid([0.0, -1000.0]).tolist()
    [0.5, 0.0]
    """
    z = np.asarray(log_odds, dtype=np.float64)
    small = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0, 1.0, small) / (1.0 + small), dtype=np.float64)


@kernel
def probability_of(log_odds: float) -> float:
    """:func:`sigmoid` of one number, for other kernels, which take it in whole."""
    small = np.exp(-abs(log_odds))
    return float((1.0 if log_odds >= 0.0 else small) / (1.0 + small))


def log_scores(probabilities: FloatArray, floor: float = EPSILON) -> FloatArray:
    """Logarithms of the scores of classes, held at or above ``floor``."""
    return np.log(np.clip(probabilities, floor, 1.0))


def softmax(z: FloatArray) -> FloatArray:
    """Probabilities of rows of log-weights."""
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True), dtype=np.float64)


def scaled_to_one(each: FloatArray) -> FloatArray:
    """Probabilities of classes that were found one by one, scaled to sum to one in each row; uniform if all are 0."""
    total = each.sum(axis=1, keepdims=True)
    return np.where(total > 0.0, each / np.where(total > 0.0, total, 1.0), 1.0 / each.shape[1])


def log_loss_of_logodds(log_odds: FloatArray, label: FloatArray) -> FloatArray:
    """Per-row log loss −y·log q − (1−y)·log(1−q) at q = σ(z), computed as log(1 + e^z) − y·z."""
    return np.logaddexp(0.0, log_odds) - label * log_odds
