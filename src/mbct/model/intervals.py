"""Intervals of rows: the certified bin that a row falls into, and how far the bin's rate may be from its prediction.

The bins are leaves of one tree, each cut into bands of the calibrated probability; leaves and bands that no certificate
holds for were merged. The paper's ensemble takes its last tree, the default the one that tells most rows apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.tree import CalibrationTree, IntArray
from mbct.validation import FloatArray


@dataclass(frozen=True, eq=False)
class RowIntervals:
    """For each terminal node of the tree, its bands and both ends' multipliers of the prediction.

    Band k of node j holds the calibrated probabilities up to ``edges[start[j] + k]``, the last of which is infinite.
    Over the rows of a certified bin the mean of the lower ends is the lower end of the bin's rate, likewise above.

    Attributes
    ----------
    level : float
        Probability with which the intervals of all bins hold at once.
    start : ndarray
        Where the bands of each node begin; the last entry is the number of bands.
    edges, lower, upper : ndarray
        Upper edge and multipliers of each band.
    """

    level: float
    start: npt.NDArray[np.int64]
    edges: FloatArray
    lower: FloatArray
    upper: FloatArray

    def of_rows(self, node: IntArray, calibrated: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Both ends of each row's interval, held inside [0, 1]."""
        band = _bands(node, calibrated, self.start, self.edges)
        ends = self.lower[band] * calibrated, self.upper[band] * calibrated
        return np.clip(ends[0], 0.0, 1.0), np.clip(ends[1], 0.0, 1.0)

    def bins_of_rows(self, node: IntArray, calibrated: FloatArray) -> npt.NDArray[np.int64]:
        """Number of each row's bin; nodes and bands that were merged share one."""
        multipliers = np.column_stack([self.lower, self.upper])
        _, bins = np.unique(multipliers, axis=0, return_inverse=True)
        return np.asarray(bins.ravel()[_bands(node, calibrated, self.start, self.edges)], dtype=np.int64)

    def bands(self, node: int) -> list[tuple[float, float, float]]:
        """Edge, lower and upper multiplier of a node's bands, in rising order."""
        own = slice(int(self.start[node]), int(self.start[node + 1]))
        return list(zip(self.edges[own].tolist(), self.lower[own].tolist(), self.upper[own].tolist(), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; the infinite edge of each node's last band is None."""
        edges = [edge if np.isfinite(edge) else None for edge in self.edges.tolist()]
        arrays = {name: getattr(self, name).tolist() for name in ("start", "lower", "upper")}
        return {"level": self.level, **arrays, "edges": edges}


def bin_tree(trees: Sequence[CalibrationTree], link: str) -> CalibrationTree | None:
    """The tree whose leaves are the bins; None where there is no tree and all rows are one bin."""
    if not trees:
        return None
    return trees[-1] if link == "linear" else max(trees, key=_told_apart)


def _told_apart(tree: CalibrationTree) -> float:
    """Σ_b count_b·(value_b − mean value)² over the leaves: how far the tree moves rows from one another."""
    count, value = tree.count[tree.leaves], tree.leaf_value[tree.leaves]
    total = float(count.sum())
    return float(np.sum(count * (value - np.sum(count * value) / total) ** 2)) if total > 0.0 else 0.0


@kernel
def _bands(
    node: IntArray, calibrated: FloatArray, start: npt.NDArray[np.int64], edges: FloatArray
) -> npt.NDArray[np.int64]:
    band = np.empty(len(node), np.int64)
    for i in range(len(node)):
        k = start[node[i]]
        while calibrated[i] > edges[k]:
            k += 1
        band[i] = k
    return band
