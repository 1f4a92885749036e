"""ECCE: the range of the cumulated residuals, which needs neither bins nor kernel (Arrieta-Ibarra et al. 2022)."""

import math

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from mbct.stats.divisions import Bins, atoms_by_group, cumulative
from mbct.validation import FloatArray

_TERMS = np.arange(1, 41)
_SERIES_MEET = 1.5
"""Below this the theta-transformed series converges faster, above it the alternating one."""


def cumulative_error(atoms: Bins) -> float:
    """ECCE = max_k C_k − min_k C_k, C_k = (1/n) Σ_{i≤k}(y_i − p_i) over the sorted predictions, C_0 = 0.

    It is the largest |Σ(y − p)|/n over all intervals of predictions.

    >>> import numpy as np
    >>> cumulative_error(Bins(np.ones(4), np.array([1.0, 0.0, 0.0, 1.0]), np.full(4, 0.5)))
    0.25
    """
    path = cumulative(atoms.label - atoms.pred) / atoms.count.sum()
    return float(path.max() - path.min())


def cumulative_scale(y_prob: FloatArray, weight: FloatArray) -> float:
    """σ = √(Σ w²·p(1 − p)) / Σw: the standard deviation of C_n where the predictions are right."""
    return math.sqrt(float(np.sum(weight * weight * y_prob * (1.0 - y_prob)))) / float(weight.sum())


def cumulative_error_by_group(
    y_prob: FloatArray, y_true: FloatArray, weight: FloatArray, group: npt.NDArray[np.int64], n_groups: int
) -> tuple[FloatArray, FloatArray]:
    """ECCE and σ within each group; both 0 for an empty one."""
    of_group, atoms = atoms_by_group(y_prob, y_true, weight, group)
    total = np.bincount(group, weight, n_groups)
    size = np.where(total > 0, total, 1.0)
    path = np.cumsum(atoms.label - atoms.pred)
    start = np.flatnonzero(np.concatenate([[True], of_group[1:] != of_group[:-1]]))
    before = np.concatenate([[0.0], path[start[1:] - 1]])
    error = np.zeros(n_groups)
    reached = np.maximum(np.maximum.reduceat(path, start), before) - np.minimum(
        np.minimum.reduceat(path, start), before
    )
    error[of_group[start]] = reached
    variance = np.bincount(group, weight * weight * y_prob * (1.0 - y_prob), n_groups)
    return error / size, np.sqrt(variance) / size


def in_sigmas(error: float, sigma: float) -> float:
    """The error over σ; infinite where predictions of 0 and 1 leave no room for chance, and yet there is an error."""
    if sigma > 0.0:
        return error / sigma
    return 0.0 if error == 0.0 else math.inf


def brownian_range_tail(scaled: float) -> float:
    """P(R ≥ x) for the range R of Brownian motion on [0, 1]: the null distribution of ECCE / σ (Feller 1951).

    >>> round(brownian_range_tail(2.241), 3)
    0.1
    """
    if scaled <= 0.0:
        return 1.0
    if scaled > _SERIES_MEET:
        signs = np.where(_TERMS % 2 == 1, 1.0, -1.0)
        return float(np.clip(8.0 * np.sum(signs * _TERMS * ndtr(-_TERMS * scaled)), 0.0, 1.0))
    odd = (_TERMS - 0.5) * math.pi
    below = np.sum((8.0 / scaled**2 + 2.0 / odd**2) * np.exp(-2.0 * odd**2 / scaled**2))
    return float(np.clip(1.0 - below, 0.0, 1.0))
