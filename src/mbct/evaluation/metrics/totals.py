"""Whether predicted and observed positives of groups of rows differ beyond chance, by rows or by sums of blocks."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.evaluation.metrics.rows import Rows
from mbct.stats.blocks import totals_by_block
from mbct.stats.divisions import Bins, by_group
from mbct.stats.testing import effective_share, total_p_values
from mbct.validation import FloatArray


@dataclass(frozen=True)
class GroupTotals:
    """Of each group its sums, the p-value of Σy against Σp, and the number of independent rows that it is worth."""

    sums: Bins
    p_value: FloatArray
    size: FloatArray


def compare_totals(rows: Rows, codes: npt.NDArray[np.int64], n_groups: int, confidence: float = 0.95) -> GroupTotals:
    """Totals of each group of rows as if the predictions were right.

    Rows that stand alone vary as their labels do. Rows of blocks vary together: a difference must then exceed both the
    noise of labels and what the sums of blocks show (Student's t), and a group is worth fewer rows, by the design
    effect at ``confidence``.
    """
    noise = rows.weight**2 * rows.y_prob * (1.0 - rows.y_prob)
    variance = np.bincount(codes, noise, n_groups).astype(np.float64)
    sums, share = by_group(rows.bins, codes, n_groups), effective_share(rows.weight)
    p_value, size = total_p_values(sums.label, sums.pred, variance, share), sums.count * share
    if rows.blocks is None:
        return GroupTotals(sums, p_value, size)
    residual = rows.weight * (rows.y_true - rows.y_prob)
    found = totals_by_block(residual, rows.weight, codes, n_groups, rows.blocks, in_order=rows.in_order)
    return GroupTotals(sums, np.maximum(p_value, found.p_values), size / found.design_effect(variance, confidence))


def p_value_of_total(rows: Rows) -> float:
    """P-value of all rows together."""
    return float(compare_totals(rows, np.zeros(len(rows), dtype=np.int64), 1).p_value[0])


def block_null(rows: Rows) -> str:
    """What the p-value of a total of blocks supposes, in words."""
    n_blocks = 0 if rows.blocks is None else int(rows.blocks.max()) + 1
    return f"the predictions were right (Student's t of the sums Σ(y − p) of {n_blocks:,} whole blocks)"
