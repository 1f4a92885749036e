"""The true calibration error, where the truth is known."""

import numpy as np

from mbct.stats.partition_error import norm_of_errors
from mbct.validation import FloatArray


def true_calibration_error(truth: FloatArray, y_prob: FloatArray, weight: FloatArray, norm: float = 2.0) -> float:
    """TCE_p = (E|E[Y|X] − f(X)|^p)^{1/p}, equation (tce).

    >>> import numpy as np
    >>> true_calibration_error(np.array([0.25, 0.5]), np.array([0.5, 0.5]), np.ones(2), norm=1)
    0.125
    """
    return norm_of_errors(np.abs(truth - y_prob), weight, norm)
