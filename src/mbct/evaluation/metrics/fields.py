"""Errors over the values of fields: PCOC, Field-ECE, Field-RCE, their means over fields, Cal-N."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from scipy.special import ndtr

from mbct.evaluation.metrics.resampling import IntervalOptions, NullOptions, prepare
from mbct.evaluation.metrics.results import BlockEstimate, Estimate, RelativeEstimate
from mbct.evaluation.metrics.rows import Rows, check_choice, check_count, read_one_column, read_segments
from mbct.evaluation.metrics.totals import block_null, p_value_of_total
from mbct.stats.divisions import Bins, uniform_mass
from mbct.stats.expected_error import cumulative_scale, in_sigmas
from mbct.stats.partition_error import calibration_n, field_error, prediction_ratio, relative_field_error

NORMAL_NULL = "the predictions were right (normal law of Σ(y − p))"


def pcoc(y_true: Any, y_prob: Any, *, sample_weight: Any = None, **resampling: Unpack[IntervalOptions]) -> Estimate:
    """Predicted over observed positives, Σp / Σy: 1 is right in total, above 1 overestimates.

    The p-value is two-sided, of Σw(y − p) against N(0, Σw²p(1 − p)); with ``time`` or ``groups`` also against the
    variance of the sums of whole blocks.

    Parameters
    ----------
    y_true, y_prob, sample_weight, **resampling : as in :mod:`mbct.metrics`
        Rows, and keywords of the interval.

    Returns
    -------
    ratio : Estimate
        A float with ``interval`` and ``p_value``.

    Examples
    --------
    >>> float(pcoc([0, 1, 0, 1], [0.2, 0.7, 0.3, 0.4]))
    0.8
    """
    rows, how = prepare(y_true, y_prob, sample_weight, resampling)
    if rows.blocks is None:
        gap = abs(float(np.average(rows.y_true - rows.y_prob, weights=rows.weight)))
        p_value = float(2.0 * ndtr(-in_sigmas(gap, cumulative_scale(rows.y_prob, rows.weight))))
        null = NORMAL_NULL
    else:
        p_value, null = p_value_of_total(rows), block_null(rows)
    return how.estimate(rows, lambda rows: float(prediction_ratio(rows.whole)[0]), Estimate, p_value=p_value, null=null)


def field_ece(
    y_true: Any, y_prob: Any, field: Any, *, sample_weight: Any = None, **resampling: Unpack[NullOptions]
) -> Estimate:
    """Field-ECE = (1/n) Σ_v |Σ_{i∈v}(y − p)| over the values v of one field.

    Parameters
    ----------
    y_true, y_prob, sample_weight, **resampling : as in :mod:`mbct.metrics`
        Rows, and keywords of the interval and of the p-value.
    field : array
        Column whose values are compared; one with more than 100 distinct fractions is cut into ten quantiles.

    Returns
    -------
    error : Estimate
        A float with ``interval`` and ``p_value``.

    Examples
    --------
    >>> float(field_ece([1, 1, 0, 0], [0.5, 0.5, 0.5, 0.5], ["a", "a", "b", "b"]))
    0.5
    """
    values = read_one_column(field, "field")
    rows, how = prepare(y_true, y_prob, sample_weight, resampling, (values.codes,))
    return how.estimate(rows, lambda rows: field_error(rows.values(0, len(values))), Estimate)


def field_rce(
    y_true: Any,
    y_prob: Any,
    field: Any,
    *,
    no_positive: str = "drop",
    sample_weight: Any = None,
    **resampling: Unpack[NullOptions],
) -> RelativeEstimate:
    """Field-RCE = (1/n) Σ_v n_v·|Σ_{i∈v}(p − y)| / Σ_{i∈v} y over the values v of one field.

    Parameters
    ----------
    y_true, y_prob, field, sample_weight, **resampling : as in :func:`field_ece`
        Rows, their segments, and keywords of the interval and of the p-value.
    no_positive : "drop" or "keep", default="drop"
        A value without a positive has no relative error: "drop" leaves it out and renormalises, as public code does,
        which hides sparse values; "keep" takes it to have one positive.

    Returns
    -------
    error : RelativeEstimate
        A float with ``interval``, ``p_value``, ``all_values`` (the error under "keep") and ``unseen_share``.
    """
    error = _error_of_field("rce", no_positive)
    values = read_one_column(field, "field")
    rows, how = prepare(y_true, y_prob, sample_weight, resampling, (values.codes,))
    both = relative_field_error(rows.values(0, len(values)))
    details = {"all_values": both.all_values, "unseen_share": both.unseen_share}
    return how.estimate(rows, lambda rows: error(rows.values(0, len(values))), RelativeEstimate, **details)


@dataclass(frozen=True, eq=False, repr=False)
class MultiFieldEstimate(Estimate):
    """The mean of a field error over several fields, and each field's own."""

    by_field: tuple[tuple[str, float], ...] = ()
    """Name and error of each field."""

    def _details(self) -> str:
        return ", ".join(f"{name} {value:.5g}" for name, value in self.by_field)


def multi_field(
    y_true: Any,
    y_prob: Any,
    fields: Any,
    *,
    error: str = "ece",
    no_positive: str = "drop",
    sample_weight: Any = None,
    **resampling: Unpack[NullOptions],
) -> MultiFieldEstimate:
    """Mean over fields of Field-ECE (MFCE) or of Field-RCE (MFRCE).

    Parameters
    ----------
    y_true, y_prob, sample_weight, **resampling : as in :mod:`mbct.metrics`
        Rows, and keywords of the interval and of the p-value.
    fields : frame, mapping or array
        Columns whose values are compared, one a field.
    error : "ece" or "rce", default="ece"
        The error of each field.
    no_positive : "drop" or "keep", default="drop"
        As in :func:`field_rce`; Field-ECE does not depend on it.

    Returns
    -------
    error : MultiFieldEstimate
        A float with ``interval``, ``p_value`` and ``by_field``.
    """
    of_values = _error_of_field(error, no_positive)
    segmentations = read_segments(fields)
    rows, how = prepare(y_true, y_prob, sample_weight, resampling, tuple(s.codes for s in segmentations))

    def each(rows: Rows) -> list[float]:
        return [of_values(rows.values(i, len(s))) for i, s in enumerate(segmentations)]

    named = tuple(zip((s.name for s in segmentations), each(rows), strict=True))
    return how.estimate(rows, lambda rows: float(np.mean(each(rows))), MultiFieldEstimate, by_field=named)


def cal_n(
    y_true: Any,
    y_prob: Any,
    *,
    n_blocks: int = 100,
    by: Any = None,
    sample_weight: Any = None,
    **resampling: Unpack[NullOptions],
) -> BlockEstimate:
    """Cal-N = √(mean e²) over blocks, e = PCOC − 1 where PCOC ≥ 1, else 1/PCOC − 1.

    A block without a positive has no finite e; it is left out, and the result says how many were.

    Parameters
    ----------
    y_true, y_prob, sample_weight, **resampling : as in :mod:`mbct.metrics`
        Rows, and keywords of the interval and of the p-value.
    n_blocks : int, default=100
        Number of blocks of equal weight, by prediction.
    by : array or None, default=None
        Column whose values are the blocks instead.

    Returns
    -------
    error : BlockEstimate
        A float with ``interval``, ``p_value``, ``n_blocks`` and ``left_out``.
    """
    check_count("n_blocks", n_blocks)
    values = None if by is None else read_one_column(by, "by")
    rows, how = prepare(y_true, y_prob, sample_weight, resampling, () if values is None else (values.codes,))

    def blocks(rows: Rows) -> Bins:
        return uniform_mass(rows.atoms, n_blocks) if values is None else rows.values(0, len(values))

    value, left_out = calibration_n(blocks(rows))
    return how.estimate(
        rows,
        lambda rows: calibration_n(blocks(rows))[0],
        BlockEstimate,
        value=value,
        n_blocks=int(np.sum(blocks(rows).count > 0)),
        left_out=left_out,
    )


def _error_of_field(error: str, no_positive: str) -> Callable[[Bins], float]:
    keep = check_choice("no_positive", no_positive, ("drop", "keep")) == "keep"
    if check_choice("error", error, ("ece", "rce")) == "ece":
        return field_error
    if keep:
        return lambda values: relative_field_error(values).all_values
    return lambda values: relative_field_error(values).seen
