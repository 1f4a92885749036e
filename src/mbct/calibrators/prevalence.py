"""Prior shift: the label rate has changed, what positives and negatives look like has not."""

from typing import Any, NamedTuple

import numpy as np

from mbct.errors import ParameterError
from mbct.validation import FloatArray, as_probabilities

_MOST_STEPS = 10_000
_CLOSE = 1e-10


class PrevalenceEstimate(NamedTuple):
    """A label rate estimated from unlabelled scores, and its standard error."""

    prevalence: float
    standard_error: float


def shift_prevalence(y_prob: Any, trained: float, prevalence: float) -> FloatArray:
    """Probabilities under another label rate: their odds times the ratio of the two rates' odds.

    Exact under prior shift, that is, if rows of each class are distributed as before and only the classes' shares have
    changed.

    Parameters
    ----------
    y_prob : array-like of shape (n_rows,)
        Probabilities calibrated where the label rate was ``trained``.
    trained, prevalence : float
        Label rate of the rows they were calibrated on, and of the rows at hand.

    Returns
    -------
    shifted : ndarray
        One probability for each given one.

    Examples
    --------
    >>> shift_prevalence([0.1, 0.5], trained=0.1, prevalence=0.2).round(3).tolist()
    [0.2, 0.692]
    """
    for name, rate in (("trained", trained), ("prevalence", prevalence)):
        if not 0.0 < rate < 1.0:
            raise ParameterError(f"{name}={rate!r} must lie between 0 and 1")
    factor = prevalence / (1.0 - prevalence) * (1.0 - trained) / trained
    p = as_probabilities(y_prob)
    return p * factor / (p * factor + 1.0 - p)


def estimate_prevalence(y_prob: Any, trained: float) -> PrevalenceEstimate:
    """Label rate of unlabelled rows by the EM algorithm of Saerens, Latinne and Decaestecker (2002).

    The maximum-likelihood rate under prior shift, and its standard error from the curvature of the likelihood. It holds
    only if ``y_prob`` are calibrated at the label rate ``trained`` and rows of each class look as they did then: where
    the features themselves have drifted, the estimate follows that drift and is wrong with a small standard error. Weak
    predictions (an AUC near 0.5) say little about the rate, which the standard error shows. Check it against labels as
    soon as some are there.

    Parameters
    ----------
    y_prob : array
        Calibrated probabilities of the rows.
    trained : float
        Label rate at which they are calibrated.

    Returns
    -------
    PrevalenceEstimate
        The rate and its standard error.
    """
    q = as_probabilities(y_prob)
    rate = trained
    for _ in range(_MOST_STEPS):
        before, rate = rate, float(np.mean(shift_prevalence(q, trained, rate)))
        rate = min(max(rate, _CLOSE), 1.0 - _CLOSE)
        if abs(rate - before) <= _CLOSE * rate:
            break
    slope = q / trained - (1.0 - q) / (1.0 - trained)
    likelihood = rate * q / trained + (1.0 - rate) * (1.0 - q) / (1.0 - trained)
    information = float(np.sum((slope / likelihood) ** 2))
    return PrevalenceEstimate(rate, information**-0.5 if information > 0.0 else float("inf"))
