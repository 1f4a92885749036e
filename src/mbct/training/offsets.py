"""Offsets: a step on the log-odds for each code of some features, applied before the trees; one set a fold."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.model.bins import CodeMatrix
from mbct.model.tree import STOP, CalibrationTree, IntArray, rounded
from mbct.training.binned_rows import BinnedRows
from mbct.validation import FloatArray

DECIMALS = 9
"""Of steps, so that the order of summation cannot reach a model's bytes."""
_MOST_GROUPS = 64
"""Codes of nearly equal steps share a leaf; so many leaves keep all but 0.2 % of the variance of the steps."""
_GROUPING_PASSES = 20


@dataclass(frozen=True)
class Offsets:
    """The folds' steps by code and constants, and each row's log-odds after them."""

    features: tuple[int, ...]
    steps: tuple[FloatArray, ...]
    constants: tuple[float, ...]
    log_odds: tuple[FloatArray, ...]

    def step_of(self, fold: int, codes: CodeMatrix, offset: npt.NDArray[np.int64]) -> FloatArray:
        """Summed step of coded rows."""
        total = np.full(len(codes), self.constants[fold])
        for j in self.features:
            total += self.steps[fold][offset[j] : offset[j + 1]][codes[:, j]]
        return total

    def and_then(self, later: "Offsets") -> "Offsets":
        """These steps and ``later`` ones, which were fitted after them."""
        return Offsets(
            self.features + later.features,
            tuple(own + other for own, other in zip(self.steps, later.steps, strict=True)),
            tuple(own + other for own, other in zip(self.constants, later.constants, strict=True)),
            later.log_odds,
        )

    def held_out(self, rows: BinnedRows) -> FloatArray:
        """Log-odds of each row after the steps of the fold that holds it out."""
        found = np.empty(len(rows.fold))
        for fold, log_odds in enumerate(self.log_odds):
            own = rows.held_out_rows(fold)
            found[own] = log_odds[own]
        return found


def offset_trees(
    features: tuple[int, ...], steps: FloatArray, constant: float, rows: BinnedRows
) -> tuple[CalibrationTree, ...]:
    """A tree of one split for each feature whose ``steps`` are not all zero; the first holds the constant too."""
    found: list[CalibrationTree] = []
    for j in features:
        own = steps[rows.offset[j] : rows.offset[j + 1]]
        if not found or np.any(np.round(own, DECIMALS)):
            weight = np.bincount(rows.codes[:, j], rows.weight, len(own)).astype(np.float64)
            found.append(_table_tree(j, own, weight, 0.0 if found else constant))
    return tuple(found)


def strongest(trees: Sequence[CalibrationTree], most: int, most_groups: int) -> tuple[CalibrationTree, ...]:
    """The ``most`` trees of one split that move rows farthest apart, in their order, with at most so many groups."""

    def variance(tree: CalibrationTree) -> float:
        weight, step = tree.count[1:], tree.step[1:]
        return float(np.sum(weight * (step - np.average(step, weights=weight)) ** 2))

    chosen = sorted(sorted(range(len(trees)), key=lambda i: -variance(trees[i]))[:most])
    return tuple(_coarser(trees[i], most_groups) for i in chosen)


def _coarser(tree: CalibrationTree, most_groups: int) -> CalibrationTree:
    """A tree of one split with its children joined to fewer."""
    group, step = grouped(tree.step[1:], tree.count[1:], most_groups)
    joined = np.append(group + 1, STOP).astype(np.int32)  # STOP is -1, the last position
    table = joined[np.where(tree.table == STOP, STOP, tree.table - 1)]
    return _one_split(int(tree.feature[0]), table, np.append(tree.step[0], step))


def _table_tree(feature: int, steps: FloatArray, weight: FloatArray, constant: float) -> CalibrationTree:
    """A root whose children are groups of codes with nearly equal steps; codes without rows stay at the root."""
    seen = np.flatnonzero(weight > 0.0)
    group, step = grouped(np.round(steps[seen], DECIMALS), weight[seen], _MOST_GROUPS)
    table = np.full(len(steps), STOP, dtype=np.int32)
    table[seen] = group + 1
    return _one_split(feature, table, constant + np.append(0.0, step))


def _one_split(feature: int, table: IntArray, step: FloatArray) -> CalibrationTree:
    """A tree whose root's children are all leaves; their sums are filled in later."""
    split_by = np.full(len(step), -1, dtype=np.int32)
    split_by[0] = feature
    start = np.full(len(step), len(table), dtype=np.int64)
    start[0] = 0
    nothing = np.zeros(len(step))
    return CalibrationTree(split_by, start, table, rounded(step), nothing, nothing, nothing)


def grouped(values: FloatArray, amount: FloatArray, most: int) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Number of each value's group, and the groups' means: at most ``most`` groups of near values, rising.

    Lloyd's algorithm in one dimension, from groups of equal weight.

    >>> group, mean = grouped(np.array([0.0, 1.0, 1.1, 0.1]), np.ones(4), 2)
    >>> group.tolist(), mean.tolist()
    ([0, 1, 1, 0], [0.05, 1.05])
    """
    distinct, index = np.unique(values, return_inverse=True)
    weight = np.bincount(index, amount)
    if len(distinct) <= most:
        return index, distinct
    reached = np.cumsum(weight) / weight.sum()
    member = np.minimum((reached * most).astype(np.intp), most - 1)
    for _ in range(_GROUPING_PASSES):
        _, member = np.unique(member, return_inverse=True)
        centre = np.bincount(member, weight * distinct) / np.bincount(member, weight)
        moved = np.searchsorted((centre[1:] + centre[:-1]) / 2.0, distinct)
        if np.array_equal(moved, member):
            break
        member = moved
    _, member = np.unique(member, return_inverse=True)
    centre = np.bincount(member, weight * distinct) / np.bincount(member, weight)
    return member[index], np.asarray(centre)
