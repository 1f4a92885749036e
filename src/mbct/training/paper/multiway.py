"""The paper's split: one child for every value that has rows enough, one for the rest."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.tree import STOP, IntArray, rounded
from mbct.stats.multi_view import mvce_of_sums
from mbct.training.paper.histogram import COUNT, LABEL, PRED, PRED2, PRED_LABEL
from mbct.validation import FloatArray

MULTIPLIER_LIMIT = 1000.0
"""A bin without positives would get k = 0, from which no later tree could recover: 1/1000 ≤ k ≤ 1000."""
NORM = 2.0  # Of the closed form
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
def residuals_of_sets(sums: FloatArray, multipliers: FloatArray) -> FloatArray:
    """Σd and Σd² of each set of rows under its multiplier."""
    out = np.empty((len(sums), 2))
    for i in range(len(sums)):
        out[i, 0] = multipliers[i] * sums[i, PRED] - sums[i, LABEL]
        out[i, 1] = squared_after(sums[i], multipliers[i])
    return out


@kernel
def losses_of_level(
    histograms: FloatArray,
    offset: npt.NDArray[np.int64],
    sums: FloatArray,
    multipliers: FloatArray,
    min_size: float,
    bin_size: float,
) -> tuple[FloatArray, FloatArray]:
    """Closed-form MVCE of each node as it is, and after a split by each feature, equation (select_feat).

    The loss is infinite where a split gives fewer than two children.
    """
    n_features = len(offset) - 1
    before = np.empty(len(sums))
    after = np.full((len(sums), n_features), np.inf)
    group = np.empty(histograms.shape[1], np.int64)
    for i in range(len(sums)):
        residual = multipliers[i] * sums[i, PRED] - sums[i, LABEL]
        before[i] = mvce_of_sums(sums[i, COUNT], residual, squared_after(sums[i], multipliers[i]), bin_size, NORM)
        for j in range(n_features):
            histogram = histograms[i, offset[j] : offset[j + 1]]
            n_groups = group_codes(histogram, min_size, group)
            if n_groups >= 2:
                residual, squared = residuals_after(group_sums(histogram, group, n_groups), multipliers[i])
                after[i, j] = mvce_of_sums(sums[i, COUNT], residual, squared, bin_size, NORM)
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
def _split_nodes(
    histograms: FloatArray,
    offset: npt.NDArray[np.int64],
    feature: npt.NDArray[np.int64],
    min_size: float,
    group: npt.NDArray[np.int64],
    n_groups: npt.NDArray[np.int64],
    sums: FloatArray,
) -> None:
    """Group the codes of each node's feature, one after the other into ``group``; sums likewise."""
    at, row = 0, 0
    for i in range(len(feature)):
        if feature[i] < 0:
            continue
        histogram = histograms[i, offset[feature[i]] : offset[feature[i] + 1]]
        codes = group[at : at + len(histogram)]
        n_groups[i] = group_codes(histogram, min_size, codes)
        sums[row : row + n_groups[i] + 1] = group_sums(histogram, codes, n_groups[i])
        at += len(histogram)
        row += n_groups[i] + 1


@dataclass(frozen=True)
class MultiwaySplits:
    """Splits of some nodes, one after the other.

    ``group`` holds the group of each code of each split's feature; ``sums`` and ``multipliers`` an entry for each
    group, of which the first of a split (group 0) is what stays at the node.
    """

    slot: npt.NDArray[np.int64]
    feature: npt.NDArray[np.int64]
    n_codes: npt.NDArray[np.int64]
    n_children: npt.NDArray[np.int64]
    group: npt.NDArray[np.int64]
    sums: FloatArray
    multipliers: FloatArray

    @classmethod
    def of(
        cls,
        histograms: FloatArray,
        offset: npt.NDArray[np.int64],
        feature: npt.NDArray[np.int64],
        node_multipliers: FloatArray,
        min_size: float,
    ) -> "MultiwaySplits":
        """Split each node by its ``feature``, unless that is −1, and calibrate each group."""
        slot = np.flatnonzero(feature >= 0)
        n_codes = offset[feature[slot] + 1] - offset[feature[slot]]
        group = np.empty(int(n_codes.sum()), np.int64)
        n_groups = np.zeros(len(feature), np.int64)
        sums = np.empty((len(group) + len(slot), histograms.shape[2]))
        _split_nodes(histograms, offset, feature, min_size, group, n_groups, sums)
        n_children = n_groups[slot]
        sums = sums[: int(n_children.sum()) + len(slot)].copy()
        multipliers = multipliers_of(sums)
        multipliers[np.cumsum(n_children + 1) - n_children - 1] = node_multipliers[slot]
        return cls(slot, feature[slot], n_codes, n_children, group, sums, rounded(multipliers))

    def __len__(self) -> int:
        return len(self.slot)

    @property
    def first(self) -> npt.NDArray[np.int64]:
        """Entry of what stays, for each split."""
        return np.asarray(np.cumsum(self.n_children + 1) - self.n_children - 1)

    def tables(self, first_child: npt.NDArray[np.int64]) -> IntArray:
        """Child of each code of each split, numbered from the split's first one on."""
        child = self.group - 1 + np.repeat(first_child, self.n_codes)
        return np.where(self.group == STAY, STOP, child).astype(np.int32)

    def multiplier_of_codes(self) -> FloatArray:
        """Multiplier of each code, one split after the other."""
        return np.asarray(self.multipliers[self.group + np.repeat(self.first, self.n_codes)])


@kernel
def multipliers_of(sums: FloatArray) -> FloatArray:
    """Multiplier k_b of each set of rows."""
    out = np.empty(len(sums))
    for i in range(len(sums)):
        out[i] = multiplier_of(sums[i, LABEL], sums[i, PRED])
    return out
