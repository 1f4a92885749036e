"""Divisions: how a set of rows is cut into bins, on the order of the predictions or on any other.

Rows are masses laid end to end; a row (or rows with equal predictions, which no order can tell apart) is an atom.
A uniform-mass division cuts at N·j/B exactly, and an atom that lies across a cut counts on both sides in
proportion. Hence every bin has the same weight, a weight of k equals k duplicates, and the order of the rows given
does not matter.
Isotonic fits divide by pooling adjacent violators.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.validation import FloatArray


@dataclass(frozen=True)
class Bins:
    """Sums of each bin, in order: weight Σw, positives Σw·y and predicted positives Σw·p."""

    count: FloatArray
    label: FloatArray
    pred: FloatArray

    def __len__(self) -> int:
        return len(self.count)

    @cached_property
    def cumulated(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Running sums of weight, positives and predicted positives, each from 0: found once, cut by many divisions."""
        return cumulative(self.count), cumulative(self.label), cumulative(self.pred)

    @cached_property
    def pooled(self) -> npt.NDArray[np.int64]:
        """Start of each block of the isotonic fit of the label rate."""
        return pooled_blocks(self.count, self.label)

    def joined(self, start: npt.NDArray[Any]) -> "Bins":
        """Neighbours from each start to the next as one bin."""
        return Bins(*(np.add.reduceat(sums, start) for sums in (self.count, self.label, self.pred)))


def atoms_by_prediction(y_prob: FloatArray, y_true: FloatArray, weight: FloatArray) -> Bins:
    """One bin for each distinct prediction, ascending; rows of no weight are left out.

    >>> atoms = atoms_by_prediction(np.array([0.5, 0.2, 0.5]), np.array([1.0, 0.0, 0.0]), np.ones(3))
    >>> atoms.count.tolist(), atoms.label.tolist()
    ([1.0, 2.0], [0.0, 1.0])
    """
    order = np.argsort(y_prob)  # not stable, and four times as fast: what is tied is joined anyway
    return atoms_of_sorted(y_prob[order], y_true[order], weight[order])


def atoms_of_sorted(y_prob: FloatArray, y_true: FloatArray, weight: FloatArray) -> Bins:
    """:func:`atoms_by_prediction` of rows that ascend in their prediction."""
    return Bins(*_joined_neighbours(y_prob, y_true, weight))


@kernel
def _joined_neighbours(
    y_prob: FloatArray, y_true: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weight, positives and predicted positives of rows of equal prediction that follow one another."""
    count, label, pred = np.empty(len(y_prob)), np.empty(len(y_prob)), np.empty(len(y_prob))
    last, of_last = -1, np.nan
    for i in range(len(y_prob)):
        if weight[i] <= 0.0:
            continue
        if y_prob[i] != of_last:
            last, of_last = last + 1, y_prob[i]
            count[last], label[last] = 0.0, 0.0
        count[last] += weight[i]
        label[last] += weight[i] * y_true[i]
        pred[last] = count[last] * of_last
    return count[: last + 1].copy(), label[: last + 1].copy(), pred[: last + 1].copy()


def atoms_by_group(
    y_prob: FloatArray, y_true: FloatArray, weight: FloatArray, group: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], Bins]:
    """One bin for each distinct prediction within each group, ascending in both; and the group of each."""
    order = np.lexsort((y_prob, group))
    g, p, w = group[order], y_prob[order], weight[order]
    start = np.flatnonzero(np.concatenate([[True], (g[1:] != g[:-1]) | (p[1:] != p[:-1])]))
    total = np.add.reduceat(w, start)
    return g[start], Bins(total, np.add.reduceat(w * y_true[order], start), total * p[start])


def uniform_mass(atoms: Bins, n_bins: int) -> Bins:
    """Cut atoms, in the order given, into ``n_bins`` bins of equal mass.

    >>> rows = Bins(np.ones(3), np.array([0.0, 1.0, 1.0]), np.array([0.2, 0.4, 0.6]))
    >>> uniform_mass(rows, 2).label.tolist()  # the middle row counts half on either side
    [0.5, 1.5]
    """
    edge = atoms.cumulated[0]
    cuts = edge[-1] * np.arange(n_bins + 1) / n_bins
    return Bins(*(np.diff(np.interp(cuts, edge, sums)) for sums in atoms.cumulated))


def equal_width(atoms: Bins, n_bins: int) -> Bins:
    """Join atoms into the intervals [0, 1/B], (1/B, 2/B], …, (1 − 1/B, 1] of their prediction; a bin may be empty."""
    inner = np.linspace(0.0, 1.0, n_bins + 1)[1:-1]
    return by_group(atoms, np.searchsorted(inner, atoms.pred / atoms.count), n_bins)


def by_group(rows: Bins, group: npt.NDArray[np.int64], n_groups: int) -> Bins:
    """Join rows by their group number, 0 … n_groups − 1: the division by a feature's values."""
    return Bins(*_summed(group, rows.count, rows.label, rows.pred, n_groups))


@kernel
def _summed(
    group: npt.NDArray[np.int64], count: FloatArray, label: FloatArray, pred: FloatArray, n_groups: int
) -> FloatArray:
    total = np.zeros((3, n_groups))
    for i in range(len(group)):
        total[0, group[i]] += count[i]
        total[1, group[i]] += label[i]
        total[2, group[i]] += pred[i]
    return total


def rows_as_bins(y_prob: FloatArray, y_true: FloatArray, weight: FloatArray) -> Bins:
    """Every row a bin of its own, in the order given."""
    return Bins(weight, weight * y_true, weight * y_prob)


def cumulative(values: FloatArray) -> FloatArray:
    """0, v₁, v₁ + v₂, …, the total."""
    return np.concatenate([[0.0], np.cumsum(values)])


@kernel
def pooled_blocks(count: FloatArray, label: FloatArray) -> npt.NDArray[np.int64]:
    """Starts of the blocks of the isotonic fit to label/count; neighbours that are equal stay apart.

    >>> pooled_blocks(np.ones(4), np.array([0.0, 1.0, 0.0, 1.0])).tolist()
    [0, 1, 3]
    """
    n = len(count)
    start = np.empty(n, dtype=np.int64)
    weight = np.empty(n)
    total = np.empty(n)
    last = -1
    for i in range(n):
        last += 1
        start[last] = i
        weight[last] = count[i]
        total[last] = label[i]
        while last > 0 and total[last - 1] * weight[last] > total[last] * weight[last - 1]:
            weight[last - 1] += weight[last]
            total[last - 1] += total[last]
            last -= 1
    return start[: last + 1].copy()
