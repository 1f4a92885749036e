"""Scores of predictions: log loss, normalised entropy, Brier score and its decomposition."""

from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from mbct.stats.divisions import Bins, pooled_blocks
from mbct.validation import FloatArray

_SMALLEST = float(np.finfo(np.float64).eps)
"""Predictions are kept this far from 0 and 1 in the log loss, so that a certain mistake costs 36, not infinity."""


def log_loss_of_rows(y_prob: FloatArray, y_true: FloatArray, weight: FloatArray) -> float:
    """−(1/Σw) Σ w·[y·log p + (1 − y)·log(1 − p)].

    >>> round(log_loss_of_rows(np.array([0.5, 0.5]), np.array([0.0, 1.0]), np.ones(2)), 6)
    0.693147
    """
    return float(np.average(log_losses(y_prob, y_true), weights=weight))


def log_losses(y_prob: FloatArray, y_true: FloatArray) -> FloatArray:
    """−y·log p − (1 − y)·log(1 − p) of each row."""
    p = np.clip(y_prob, _SMALLEST, 1.0 - _SMALLEST)
    return np.asarray(-(y_true * np.log(p) + (1.0 - y_true) * np.log1p(-p)), dtype=np.float64)


def entropy(rate: float) -> float:
    """−r·log r − (1 − r)·log(1 − r): the log loss of predicting the rate itself."""
    return float(-xlogy(rate, rate) - xlogy(1.0 - rate, 1.0 - rate))


def normalised_entropy_of_rows(y_prob: FloatArray, y_true: FloatArray, weight: FloatArray) -> float:
    """Log loss over the log loss of the label rate: below 1 where the predictions tell something.

    Not a number where the labels are all equal.
    """
    return entropy_ratio(log_loss_of_rows(y_prob, y_true, weight), float(np.average(y_true, weights=weight)))


def entropy_ratio(log_loss: float, rate: float) -> float:
    """Log loss over the entropy of the label rate; not a number where the rate leaves nothing to tell."""
    return float("nan") if rate in (0.0, 1.0) else log_loss / entropy(rate)


def brier_of_rows(y_prob: FloatArray, y_true: FloatArray, weight: FloatArray) -> float:
    """(1/Σw) Σ w·(p − y)²."""
    return float(np.average((y_prob - y_true) ** 2, weights=weight))


@dataclass(frozen=True)
class Decomposition:
    """Score = miscalibration − discrimination + uncertainty, exactly."""

    miscalibration: float
    discrimination: float
    uncertainty: float


def brier_decomposition(atoms: Bins, fit: FloatArray) -> Decomposition:
    """Parts of the Brier score by isotonic recalibration (Dimitriadis, Gneiting & Jordan 2021), without bins.

    With q the isotonic ``fit`` of y on p (:func:`isotonic_rates`) and r the label rate: miscalibration = S(p) − S(q),
    discrimination = S(r) − S(q), uncertainty = S(r) = r(1 − r).
    """
    total = float(atoms.count.sum())
    prediction = atoms.pred / atoms.count
    rate = float(atoms.label.sum()) / total
    # y² = y, so a score at constant c is c² − 2·c·rate + rate within each atom; the last term cancels.
    miscalibration = np.sum((prediction - fit) * (atoms.count * (prediction + fit) - 2.0 * atoms.label)) / total
    discrimination = np.sum((rate - fit) * (atoms.count * (rate + fit) - 2.0 * atoms.label)) / total
    return Decomposition(float(miscalibration), float(discrimination), rate * (1.0 - rate))


def isotonic_rates(atoms: Bins) -> FloatArray:
    """Isotonic fit of the label on the prediction, at each atom."""
    start = pooled_blocks(atoms.count, atoms.label)
    size, label = np.add.reduceat(atoms.count, start), np.add.reduceat(atoms.label, start)
    return np.repeat(label / size, np.diff(np.append(start, len(atoms))))


def log_loss_decomposition(atoms: Bins, fit: FloatArray) -> Decomposition:
    """Parts of the log loss by isotonic recalibration; predictions are kept 2.2e-16 from 0 and 1.

    >>> atoms = Bins(np.array([2.0, 2.0]), np.array([0.0, 1.0]), np.array([0.5, 1.0]))
    >>> log_loss_decomposition(atoms, isotonic_rates(atoms)).uncertainty
    0.5623351446188083
    """
    rate = float(atoms.label.sum() / atoms.count.sum())
    # A rate of 0 or 1 costs nothing in the atoms it comes from.
    recalibrated = -np.sum(xlogy(atoms.label, fit) + xlogy(atoms.count - atoms.label, 1.0 - fit)) / atoms.count.sum()
    loss = float(np.sum(atoms.count * log_losses(atoms.pred / atoms.count, atoms.label / atoms.count)))
    loss /= float(atoms.count.sum())
    return Decomposition(loss - float(recalibrated), entropy(rate) - float(recalibrated), entropy(rate))
