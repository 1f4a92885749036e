"""Errors over bins of the sorted predictions (ECE, MCE, ECE_sweep, debiased ECE) and of one bin (PCE, PUD, BFGPCE)."""

import math
from collections.abc import Callable
from typing import Any, Unpack

import numpy as np

from mbct.evaluation.metrics.resampling import IntervalOptions, NullOptions, Resampling, prepare
from mbct.evaluation.metrics.results import BinnedEstimate, Estimate
from mbct.evaluation.metrics.rows import Rows, check_choice, check_count, check_norm
from mbct.stats.divisions import Bins, equal_width, uniform_mass
from mbct.stats.expected_error import ece_of_atoms, ece_of_bins, sweep_bins
from mbct.stats.partition_error import (
    debiased_error,
    finer_partition_error,
    partition_error,
    prediction_ratio,
    shuffled_view,
)

STRATEGIES = {"uniform-mass": uniform_mass, "equal-width": equal_width}


def ece(
    y_true: Any,
    y_prob: Any,
    *,
    n_bins: int = 15,
    strategy: str = "uniform-mass",
    norm: float = 1,
    sample_weight: Any = None,
    **resampling: Unpack[NullOptions],
) -> BinnedEstimate:
    """Expected calibration error (Σ_b c_b/n·PCE(D_b)^p)^{1/p} over bins of the predictions, equation (ece_n).

    Above 0 even where the predictions are right: ``n_null=999`` tells how often chance alone gives as much,
    ``confidence=0.95`` adds a bootstrap interval.

    Parameters
    ----------
    y_true, y_prob, sample_weight, **resampling : as in :mod:`mbct.metrics`
        Rows, and keywords of the interval and of the p-value.
    n_bins : int, default=15
        Number of bins.
    strategy : "uniform-mass" or "equal-width", default="uniform-mass"
        Bins of equal weight (the paper's) or of equal width.
    norm : float, default=1
        The norm p, from 1 to ``math.inf``.

    Returns
    -------
    error : BinnedEstimate
        A float with ``interval``, ``p_value`` and ``n_bins``.

    Examples
    --------
    >>> float(ece([0, 0, 1, 1], [0.1, 0.2, 0.7, 0.8], n_bins=2))
    0.2
    """
    p = check_norm(norm)
    rows, how = prepare(y_true, y_prob, sample_weight, resampling)
    return _over_bins(rows, how, lambda bins: ece_of_bins(bins, p), n_bins, strategy)


def _over_bins(
    rows: Rows, how: Resampling, error: Callable[[Bins], float], n_bins: int, strategy: str
) -> BinnedEstimate:
    number = check_count("n_bins", n_bins)
    divide = STRATEGIES[check_choice("strategy", strategy, tuple(STRATEGIES))]
    return how.estimate(rows, lambda rows: error(divide(rows.atoms, number)), BinnedEstimate, n_bins=number)


def mce(
    y_true: Any,
    y_prob: Any,
    *,
    n_bins: int = 15,
    strategy: str = "uniform-mass",
    sample_weight: Any = None,
    **resampling: Unpack[NullOptions],
) -> BinnedEstimate:
    """Maximum calibration error, the largest PCE of any bin, that is :func:`ece` in the infinite norm.

    Parameters
    ----------
    y_true, y_prob, n_bins, strategy, sample_weight, **resampling : as in :func:`ece`
        Rows, bins, and keywords of the interval and of the p-value.

    Returns
    -------
    error : BinnedEstimate
        A float with ``interval``, ``p_value`` and ``n_bins``.
    """
    return ece(
        y_true, y_prob, n_bins=n_bins, strategy=strategy, norm=math.inf, sample_weight=sample_weight, **resampling
    )


def ece_sweep(
    y_true: Any, y_prob: Any, *, norm: float = 2, sample_weight: Any = None, **resampling: Unpack[NullOptions]
) -> BinnedEstimate:
    """ECE with as many uniform-mass bins as keep the bins' label rates in order (Roelofs et al. 2022).

    Parameters
    ----------
    y_true, y_prob, sample_weight, **resampling : as in :mod:`mbct.metrics`
        Rows, and keywords of the interval and of the p-value.
    norm : float, default=2
        The norm p, from 1 to ``math.inf``.

    Returns
    -------
    error : BinnedEstimate
        A float with ``interval``, ``p_value`` and ``n_bins``, the number of bins found.
    """
    p = check_norm(norm)
    rows, how = prepare(y_true, y_prob, sample_weight, resampling)
    n_bins = sweep_bins(rows.atoms)
    return how.estimate(
        rows, lambda rows: ece_of_atoms(rows.atoms, sweep_bins(rows.atoms), p), BinnedEstimate, n_bins=n_bins
    )


def debiased_ece(
    y_true: Any,
    y_prob: Any,
    *,
    n_bins: int = 15,
    strategy: str = "uniform-mass",
    sample_weight: Any = None,
    **resampling: Unpack[NullOptions],
) -> BinnedEstimate:
    """ECE in the 2-norm less what label noise adds to it (Kumar, Liang & Ma 2019); 0 where noise explains all.

    Parameters
    ----------
    y_true, y_prob, n_bins, strategy, sample_weight, **resampling : as in :func:`ece`
        Rows, bins, and keywords of the interval and of the p-value.

    Returns
    -------
    error : BinnedEstimate
        A float with ``interval``, ``p_value`` and ``n_bins``.
    """
    rows, how = prepare(y_true, y_prob, sample_weight, resampling)
    return _over_bins(rows, how, debiased_error, n_bins, strategy)


def pce(y_true: Any, y_prob: Any, *, sample_weight: Any = None, **resampling: Unpack[NullOptions]) -> Estimate:
    """Partition calibration error |mean prediction − label rate| of the rows as one bin, equation (pce).

    Parameters
    ----------
    y_true, y_prob, sample_weight, **resampling : as in :mod:`mbct.metrics`
        Rows, and keywords of the interval and of the p-value.

    Returns
    -------
    error : Estimate
        A float with ``interval`` and ``p_value``.
    """
    rows, how = prepare(y_true, y_prob, sample_weight, resampling)
    return how.estimate(rows, lambda rows: float(partition_error(rows.whole)[0]), Estimate)


def pud(y_true: Any, y_prob: Any, *, sample_weight: Any = None, **resampling: Unpack[IntervalOptions]) -> Estimate:
    """Partition underestimated degree, mean prediction / label rate of the rows as one bin.

    Below 1 the rows are underestimated; infinite without a positive.

    Parameters
    ----------
    y_true, y_prob, sample_weight, **resampling : as in :mod:`mbct.metrics`
        Rows, and keywords of the interval.

    Returns
    -------
    degree : Estimate
        A float with ``interval`` and ``p_value``.
    """
    rows, how = prepare(y_true, y_prob, sample_weight, resampling)
    return how.estimate(rows, lambda rows: float(prediction_ratio(rows.whole)[0]), Estimate)


def bfgpce(
    y_true: Any,
    y_prob: Any,
    *,
    n_parts: int = 4,
    division: str = "sorted",
    sample_weight: Any = None,
    **resampling: Unpack[NullOptions],
) -> BinnedEstimate:
    """Balanced finer-grained PCE: mean PCE of equal parts of the rows, equation (fine_grain_loss).

    Parameters
    ----------
    y_true, y_prob, sample_weight, **resampling : as in :mod:`mbct.metrics`
        Rows, and keywords of the interval and of the p-value.
    n_parts : int, default=4
        Number of parts, ``n_bins`` of the result.
    division : "sorted" or "shuffle", default="sorted"
        Whether rows are sorted by prediction or shuffled before they are cut into parts.

    Returns
    -------
    error : BinnedEstimate
        A float with ``interval``, ``p_value`` and ``n_bins``.
    """
    parts = check_count("n_parts", n_parts)
    shuffled = check_choice("division", division, ("sorted", "shuffle")) == "shuffle"
    rows, how = prepare(y_true, y_prob, sample_weight, resampling)

    def statistic(rows: Rows) -> float:
        if not shuffled:
            return finer_partition_error(rows.atoms, parts)
        view = shuffled_view(rows.take(rows.weight > 0).in_one_order().bins, np.random.default_rng(how.seed))
        return finer_partition_error(view, parts)

    return how.estimate(rows, statistic, BinnedEstimate, n_bins=parts)
