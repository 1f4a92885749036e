"""Errors over the values of a field: how far each value's predicted positives are from its positives."""

from dataclasses import dataclass

import numpy as np

from mbct.stats.divisions import Bins
from mbct.stats.partition_error import norm_of_errors, partition_error, prediction_ratio


def field_error(values: Bins) -> float:
    """Field-ECE = (1/n) Σ_v |Σ_{i∈v}(y − p)|: the division by a field's values, each weighted by its rows.

    >>> import numpy as np
    >>> field_error(Bins(np.array([4.0, 4.0]), np.array([2.0, 0.0]), np.array([1.0, 1.0])))
    0.25
    """
    return norm_of_errors(partition_error(values), values.count, 1.0)


@dataclass(frozen=True)
class RelativeFieldError:
    """Field-RCE, once without the values that have no positive, once with all values."""

    seen: float
    """Over the values with a positive, renormalised to them: what public code reports."""
    all_values: float
    """Over all values; one without a positive is taken to have one."""
    unseen_share: float
    """Share of the rows whose value has no positive."""


def relative_field_error(values: Bins) -> RelativeFieldError:
    """Field-RCE = (1/n) Σ_v n_v·|Σ_{i∈v}(p − y)| / Σ_{i∈v} y."""
    counted = values.count > 0
    count, label = values.count[counted], values.label[counted]
    gap = np.abs(values.pred[counted] - label)
    seen = label > 0
    relative = gap / np.where(seen, label, 1.0)
    mass = float(count[seen].sum())
    of_seen = float(np.sum(count[seen] * relative[seen])) / mass if mass > 0 else float("nan")
    total = float(count.sum())
    return RelativeFieldError(of_seen, float(np.sum(count * relative)) / total, 1.0 - mass / total)


def calibration_n(blocks: Bins) -> tuple[float, int]:
    """Cal-N = √(mean e²), e = PCOC − 1 where PCOC ≥ 1, else 1/PCOC − 1; and the number of blocks left out.

    A block without positives or without predicted positives has no finite e and is left out.
    """
    usable = (blocks.label > 0) & (blocks.pred > 0)
    ratio = prediction_ratio(Bins(blocks.count[usable], blocks.label[usable], blocks.pred[usable]))
    error = np.maximum(ratio, 1.0 / ratio) - 1.0
    left_out = int(np.sum((blocks.count > 0) & ~usable))
    if not usable.any():
        return float("nan"), left_out
    largest = float(error.max()) or 1.0  # taken out first, so that the square of a huge error does not overflow
    return largest * float(np.sqrt(np.mean((error / largest) ** 2))), left_out
