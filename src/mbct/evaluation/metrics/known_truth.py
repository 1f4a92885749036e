"""The paper's errors of a bin where the truth is known, as in simulations, and when a bin is well calibrated."""

from typing import Any

import numpy as np

from mbct.evaluation.metrics.results import Estimate
from mbct.evaluation.metrics.rows import check_choice, check_count, check_norm
from mbct.model.certificate import CertifiedBin
from mbct.stats.divisions import Bins, atoms_by_prediction
from mbct.stats.partition_error import finer_partition_error, partition_error, shuffled_view, true_calibration_error
from mbct.validation import FloatArray, as_probabilities, as_weights, same_length


def tce(truth: Any, y_prob: Any, *, norm: float = 2, sample_weight: Any = None) -> Estimate:
    """TCE_p = (E|E[Y|X] − f(X)|^p)^{1/p}, equation (tce), for data whose probabilities are known.

    Parameters
    ----------
    truth, y_prob : array
        True probabilities E[Y|X] of the rows, and predicted ones.
    norm : float, default=2
        The norm p, from 1 to ``math.inf``.
    sample_weight : array, number or None, default=None
        Weights of the rows; None counts each row once.

    Returns
    -------
    error : Estimate
        A float with ``interval``.

    Examples
    --------
    >>> float(tce([0.25, 0.5], [0.5, 0.5], norm=1))
    0.125
    """
    return Estimate(true_calibration_error(*_read(truth, y_prob, sample_weight), check_norm(norm)))


def epce(truth: Any, y_prob: Any, *, sample_weight: Any = None) -> Estimate:
    """EPCE = |mean prediction − E[Y]| of the rows as one bin, equation (ece_bin).

    Parameters
    ----------
    truth, y_prob, sample_weight : as in :func:`mbct.metrics.tce`
        True probability E[Y|X], predicted probability and weight of each row.

    Returns
    -------
    error : Estimate
        A float with ``interval``.

    Examples
    --------
    >>> float(epce([0.25, 0.5], [0.5, 0.5]))
    0.125
    """
    known, p, weight = _read(truth, y_prob, sample_weight)
    whole = Bins(*(np.array([np.sum(weight * amount)]) for amount in (1.0, known, p)))
    return Estimate(float(partition_error(whole)[0]))


def sud(truth: Any, y_prob: Any) -> FloatArray:
    """Sample underestimated degree of each row: below 1 the row is underestimated.

    Parameters
    ----------
    truth, y_prob : array
        E[Y|X] of each row, and its prediction.

    Returns
    -------
    ndarray
        ``y_prob / truth``; infinite where the truth is 0 and the prediction is not.

    Examples
    --------
    >>> sud([0.25, 0.5], [0.5, 0.4]).tolist()
    [2.0, 0.8]
    """
    known, p, _ = _read(truth, y_prob, None)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(p / known)


def bfgepce(
    truth: Any, y_prob: Any, *, n_parts: int = 4, division: str = "sorted", sample_weight: Any = None, seed: int = 0
) -> Estimate:
    """Balanced finer-grained EPCE: mean EPCE of equal parts of the rows, equation (expected_fine_grain_loss).

    Parameters
    ----------
    truth, y_prob, sample_weight : as in :func:`mbct.metrics.tce`
        True probability E[Y|X], predicted probability and weight of each row.
    n_parts, division : as in :func:`mbct.metrics.bfgpce`
        Number of parts, and whether rows are sorted by prediction or shuffled before they are cut into them.
    seed : int, default=0
        Seed of the shuffling.

    Returns
    -------
    error : Estimate
        A float with ``interval``.

    Examples
    --------
    >>> float(bfgepce([0.2, 0.2, 0.6, 0.6], [0.1, 0.1, 0.7, 0.7], n_parts=2).__round__(9))
    0.1
    """
    known, p, weight = _read(truth, y_prob, sample_weight)
    parts = check_count("n_parts", n_parts)
    if check_choice("division", division, ("sorted", "shuffle")) == "sorted":
        return Estimate(finer_partition_error(atoms_by_prediction(p, known, weight), parts))
    rows = Bins(weight, weight * known, weight * p)
    return Estimate(finer_partition_error(shuffled_view(rows, np.random.default_rng(seed)), parts))


def is_well_calibrated(bin: CertifiedBin | tuple[Any, Any], beta: float) -> bool:  # noqa: A002 - the paper's word
    """Whether a bin is (β, h)-well calibrated, EPCE ≤ β: known from the truth, or certain from a certificate.

    Parameters
    ----------
    bin : CertifiedBin or pair of arrays
        A bin of a certificate, or the true and the predicted probabilities of the rows of a bin.
    beta : float
        The largest EPCE.

    Returns
    -------
    well_calibrated : bool
        Of a certified bin: whether it is so at the certificate's level; False where that is not certain.

    Examples
    --------
    >>> is_well_calibrated(([0.25, 0.5], [0.5, 0.5]), beta=0.1)
    False
    """
    error = bin.bound if isinstance(bin, CertifiedBin) else float(epce(*bin))
    return error <= beta


def _read(truth: Any, y_prob: Any, sample_weight: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
    known, p = as_probabilities(truth, "truth"), as_probabilities(y_prob)
    same_length(len(known), y_prob=p)
    return known, p, as_weights(sample_weight, len(p))
