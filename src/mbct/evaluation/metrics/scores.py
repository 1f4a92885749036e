"""Scores: log loss, normalised entropy, Brier score with its parts, AUC over all rows and within groups."""

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from mbct.errors import DataError
from mbct.evaluation.metrics.resampling import IntervalOptions, prepare
from mbct.evaluation.metrics.results import Estimate, ScoreEstimate
from mbct.evaluation.metrics.rows import Rows, read_one_column
from mbct.stats.probabilities import auc_by_group, auc_of_atoms


def log_loss(
    y_true: Any, y_prob: Any, *, sample_weight: Any = None, **resampling: Unpack[IntervalOptions]
) -> ScoreEstimate:
    """Mean −log of the probability given to what happened; predictions are kept 2.2e-16 from 0 and 1.

    Its parts are those of isotonic recalibration, as of :func:`brier`.

    Parameters
    ----------
    y_true, y_prob, sample_weight, **resampling : as in :mod:`mbct.metrics`
        Rows, and keywords of the interval.

    Returns
    -------
    loss : ScoreEstimate
        A float with ``interval``, ``miscalibration``, ``discrimination`` and ``uncertainty``.
    """
    rows, how = prepare(y_true, y_prob, sample_weight, resampling)
    return how.estimate(rows, lambda rows: rows.log_loss, ScoreEstimate, **vars(rows.log_loss_parts))


def normalised_entropy(
    y_true: Any, y_prob: Any, *, sample_weight: Any = None, **resampling: Unpack[IntervalOptions]
) -> Estimate:
    """Log loss divided by that of always predicting the label rate; not a number where the labels are all equal.

    Parameters
    ----------
    y_true, y_prob, sample_weight, **resampling : as in :mod:`mbct.metrics`
        Rows, and keywords of the interval.

    Returns
    -------
    ratio : Estimate
        A float with ``interval``.
    """
    rows, how = prepare(y_true, y_prob, sample_weight, resampling)
    return how.estimate(rows, lambda rows: rows.normalised_entropy, Estimate)


def brier(
    y_true: Any, y_prob: Any, *, sample_weight: Any = None, **resampling: Unpack[IntervalOptions]
) -> ScoreEstimate:
    """Mean (p − y)² = miscalibration − discrimination + uncertainty, attributes of the result.

    The parts are those of isotonic recalibration (Dimitriadis, Gneiting & Jordan 2021): no bins, and they add up.

    Parameters
    ----------
    y_true, y_prob, sample_weight, **resampling : as in :mod:`mbct.metrics`
        Rows, and keywords of the interval.

    Returns
    -------
    score : ScoreEstimate
        A float with ``interval``, ``miscalibration``, ``discrimination`` and ``uncertainty``.

    Examples
    --------
    >>> score = brier([0, 1, 1, 0], [0.5, 0.75, 0.5, 0.25])
    >>> float(score), score.uncertainty
    (0.15625, 0.25)
    """
    rows, how = prepare(y_true, y_prob, sample_weight, resampling)
    return how.estimate(rows, lambda rows: rows.brier, ScoreEstimate, highest=1.0, **vars(rows.decomposition))


def auc(y_true: Any, y_prob: Any, *, sample_weight: Any = None, **resampling: Unpack[IntervalOptions]) -> Estimate:
    """Probability that a positive is ranked above a negative, ties counting half.

    Parameters
    ----------
    y_true, y_prob, sample_weight, **resampling : as in :mod:`mbct.metrics`
        Rows, and keywords of the interval.

    Returns
    -------
    area : Estimate
        A float with ``interval``.
    """
    rows, how = prepare(y_true, y_prob, sample_weight, resampling)
    if rows.y_true.min() == rows.y_true.max():
        raise DataError(f"the label is {rows.y_true[0]:g} in every row: the AUC needs both classes")
    return how.estimate(rows, lambda rows: auc_of_atoms(rows.atoms), Estimate, highest=1.0)


@dataclass(frozen=True, eq=False, repr=False)
class GroupedEstimate(Estimate):
    """Grouped AUC, and how much of the data it rests on."""

    n_groups: int = 0
    """Number of groups with both classes."""
    used_share: float = 0.0
    """Share of the rows that belong to them."""

    def _details(self) -> str:
        return f"{self.n_groups} groups with both classes, {self.used_share:.1%} of rows"


def grouped_auc(
    y_true: Any, y_prob: Any, group: Any, *, sample_weight: Any = None, **resampling: Unpack[IntervalOptions]
) -> GroupedEstimate:
    """Mean AUC within groups, weighted by their rows; groups of one class rank nothing and are left out.

    Parameters
    ----------
    y_true, y_prob, sample_weight, **resampling : as in :mod:`mbct.metrics`
        Rows, and keywords of the interval.
    group : array
        Group of each row, such as a user or a query.

    Returns
    -------
    area : GroupedEstimate
        A float with ``interval``, ``n_groups`` and ``used_share``.
    """
    segmentation = read_one_column(group, "group")
    rows, how = prepare(y_true, y_prob, sample_weight, resampling, (segmentation.codes,))
    found = grouped_area(rows, 0, len(segmentation))
    if found.n_groups == 0:
        raise DataError("no group has both classes: the grouped AUC needs at least one; choose coarser groups")
    return how.estimate(
        rows,
        lambda rows: grouped_area(rows, 0, len(segmentation)).value,
        GroupedEstimate,
        value=found.value,
        highest=1.0,
        n_groups=found.n_groups,
        used_share=found.used_share,
    )


def grouped_area(rows: Rows, field: int, n_groups: int) -> GroupedEstimate:
    """Grouped AUC over the ``field``-th column of groups; not a number where no group has both classes."""
    codes = rows.groups[field]
    area = auc_by_group(rows.y_prob, rows.y_true, rows.weight, codes, n_groups)
    weight = np.bincount(codes, rows.weight, n_groups)
    known = ~np.isnan(area)
    value = float(np.average(area[known], weights=weight[known])) if known.any() else float("nan")
    return GroupedEstimate(value, n_groups=int(known.sum()), used_share=float(weight[known].sum() / weight.sum()))
