"""The true calibration error, for simulated data and others whose probabilities are known."""

from typing import Any

from mbct.metrics.results import Estimate
from mbct.metrics.rows import check_norm
from mbct.stats.true_error import true_calibration_error
from mbct.validation import as_probabilities, as_weights, same_length


def tce(truth: Any, y_prob: Any, *, norm: float = 2, sample_weight: Any = None) -> Estimate:
    """TCE_p = (E|E[Y|X] − f(X)|^p)^{1/p}, equation (tce); ``truth`` holds E[Y|X] of each row.

    >>> float(tce([0.25, 0.5], [0.5, 0.5], norm=1))
    0.125
    """
    known, p = as_probabilities(truth, "truth"), as_probabilities(y_prob)
    same_length(len(known), y_prob=p)
    return Estimate(true_calibration_error(known, p, as_weights(sample_weight, len(p)), check_norm(norm)))
