"""A paired comparison of two calibrations on the same rows, from sums: no row is needed twice."""

import math
from dataclasses import dataclass

import numpy as np

from mbct.stats.logodds import log_loss_of_logodds
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
    mass = float(count.sum())
    negatives = count - label
    mean = float(np.sum(label * if_positive + negatives * if_negative)) / mass
    square = float(np.sum(label * (if_positive - mean) ** 2 + negatives * (if_negative - mean) ** 2)) / mass
    return PairedGain(mean, math.sqrt(square / mass))
