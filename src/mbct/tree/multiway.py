"""The paper's split: one child for every value that has rows enough, one for the rest."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.stats.closed_form import mvce_of_sums
from mbct.tree.histogram import COUNT, LABEL, PRED, PRED2, PRED_LABEL
from mbct.tree.model import STOP, IntArray, rounded
from mbct.validation import FloatArray

MULTIPLIER_LIMIT = 1000.0
"""A bin without positives would get k = 0, from which no later tree could recover: 1/1000 ≤ k ≤ 1000."""
STAY = 0
"""Group of codes whose rows stay at the node."""


@kernel
def multiplier_of(label: float, pred: float) -> float:
    """k_b = Σy / Σp, the linear bias pattern, held inside [1/1000, 1000]."""
    if pred <= 0.0:
        return 1.0
    return min(max(label / pred, 1.0 / MULTIPLIER_LIMIT), MULTIPLIER_LIMIT)


@kernel
def squared_after(sums: FloatArray, k: float) -> float:
    """Σ(k·p − y)² = k²·pred2 − 2k·pred_label + label."""
    return float(k * k * sums[PRED2] - 2.0 * k * sums[PRED_LABEL] + sums[LABEL])


@kernel
def group_codes(histogram: FloatArray, min_size: float, group: npt.NDArray[np.int64]) -> int:
    """Group of each code, 1 … n, or 0 for codes that stay at the node. Returns n.

    A value with ``min_size`` rows has a group of its own; smaller ones share the last group, which stays at the
    node when even together they are too few.
    """
    n_groups = 0
    rest = 0.0
    for code in range(len(histogram)):
        count = histogram[code, COUNT]
        group[code] = STAY
        if count >= min_size * (1.0 - 1e-12) and count > 0.0:
            n_groups += 1
            group[code] = n_groups
        else:
            rest += count
    if rest >= min_size * (1.0 - 1e-12) and rest > 0.0:
        n_groups += 1
        for code in range(len(histogram)):
            if group[code] == STAY and histogram[code, COUNT] > 0.0:
                group[code] = n_groups
    return n_groups


@kernel
def group_sums(histogram: FloatArray, group: npt.NDArray[np.int64], n_groups: int) -> FloatArray:
    """Five sums of each group; row 0 holds what stays at the node."""
    sums = np.zeros((n_groups + 1, histogram.shape[1]))
    for code in range(len(histogram)):
        for s in range(histogram.shape[1]):
            sums[group[code], s] += histogram[code, s]
    return sums


@kernel
def residuals_after(sums: FloatArray, node_multiplier: float) -> tuple[float, float]:
    """Σd and Σd² of a node after its groups were calibrated; what stays keeps the node's multiplier."""
    residual = 0.0
    squared = 0.0
    for g in range(len(sums)):
        k = node_multiplier if g == STAY else multiplier_of(sums[g, LABEL], sums[g, PRED])
        residual += k * sums[g, PRED] - sums[g, LABEL]
        squared += squared_after(sums[g], k)
    return residual, squared


@kernel
def losses_of_level(
    histograms: FloatArray,
    offset: npt.NDArray[np.int64],
    sums: FloatArray,
    multipliers: FloatArray,
    min_size: float,
    bin_size: float,
    norm: float,
) -> tuple[FloatArray, FloatArray]:
    """Closed-form MVCE of each node as it is, and after a split by each feature, equation (select_feat).

    The loss is infinite where a split gives fewer than two children.
    """
    n_features = len(offset) - 1
    before = np.empty(len(sums))
    after = np.full((len(sums), n_features), np.inf)
    group = np.empty(histograms.shape[1], np.int64)
    for i in range(len(sums)):
        residual, squared = residuals_after(sums[i : i + 1], multipliers[i])
        before[i] = mvce_of_sums(sums[i, COUNT], residual, squared, bin_size, norm)
        for j in range(n_features):
            histogram = histograms[i, offset[j] : offset[j + 1]]
            n_groups = group_codes(histogram, min_size, group)
            if n_groups >= 2:
                residual, squared = residuals_after(group_sums(histogram, group, n_groups), multipliers[i])
                after[i, j] = mvce_of_sums(sums[i, COUNT], residual, squared, bin_size, norm)
    return before, after


@kernel
def best_features(losses: FloatArray) -> npt.NDArray[np.int64]:
    """The feature of least loss of each node; the first of those that differ by less than rounding, −1 for none."""
    best = np.full(len(losses), -1, np.int64)
    for i in range(len(losses)):
        for feature in range(losses.shape[1]):
            loss = losses[i, feature]
            if np.isfinite(loss) and (best[i] < 0 or loss < losses[i, best[i]] * (1.0 - 1e-11)):
                best[i] = feature
    return best


@kernel
def _grouped(histogram: FloatArray, min_size: float) -> tuple[npt.NDArray[np.int64], FloatArray, FloatArray]:
    """Group of each code, the sums of each group and the multipliers of all groups but the one that stays."""
    group = np.empty(len(histogram), np.int64)
    sums = group_sums(histogram, group, group_codes(histogram, min_size, group))
    multipliers = np.empty(len(sums) - 1)
    for g in range(len(multipliers)):
        multipliers[g] = multiplier_of(sums[g + 1, LABEL], sums[g + 1, PRED])
    return group, sums, multipliers


@dataclass(frozen=True)
class MultiwaySplit:
    """A node's chosen split: group of each code, sums and multiplier of each group (entry 0: what stays)."""

    feature: int
    group: npt.NDArray[np.int64]
    sums: FloatArray
    multipliers: FloatArray

    @classmethod
    def of(cls, feature: int, histogram: FloatArray, node_multiplier: float, min_size: float) -> "MultiwaySplit":
        """Group the codes of ``feature`` and calibrate each group."""
        group, sums, fitted = _grouped(histogram, min_size)
        return cls(feature, group, sums, rounded(np.array([node_multiplier, *fitted.tolist()])))

    @property
    def n_children(self) -> int:
        """Number of children."""
        return len(self.sums) - 1

    def table(self, first_child: int) -> IntArray:
        """Child of each code, numbered from ``first_child``."""
        return np.where(self.group == STAY, STOP, self.group - 1 + first_child).astype(np.int32)

    def multiplier_of_codes(self) -> FloatArray:
        """Multiplier of each code."""
        return np.asarray(self.multipliers[self.group])
