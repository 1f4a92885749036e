"""Probabilities as ranks: AUC and the reorder rate."""

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.stats.divisions import Bins, atoms_by_group
from mbct.validation import FloatArray


def auc_of_atoms(atoms: Bins) -> float:
    """P(a positive is ranked above a negative) + ½·P(tie); not a number where one class is absent.

    >>> auc_of_atoms(Bins(np.array([1.0, 2.0]), np.array([0.0, 1.0]), np.array([0.1, 1.0])))
    0.75
    """
    negative = atoms.count - atoms.label
    pairs = float(atoms.label.sum()) * float(negative.sum())
    below = np.cumsum(negative) - negative
    return float(np.sum(atoms.label * (below + negative / 2.0)) / pairs) if pairs > 0 else float("nan")


def auc_of_rows(ranked_by: FloatArray, y_true: FloatArray, weight: FloatArray) -> float:
    """:func:`auc_of_atoms` of rows in whatever order."""
    distinct, position = np.unique(ranked_by, return_inverse=True)
    count, label = (np.bincount(position, amount).astype(np.float64) for amount in (weight, weight * y_true))
    return auc_of_atoms(Bins(count, label, count * distinct))


def auc_by_group(
    y_prob: FloatArray, y_true: FloatArray, weight: FloatArray, group: npt.NDArray[np.int64], n_groups: int
) -> FloatArray:
    """AUC within each group; not a number where a group lacks a class."""
    of_group, atoms = atoms_by_group(y_prob, y_true, weight, group)
    positive, negative = atoms.label, atoms.count - atoms.label
    positives = np.bincount(of_group, positive, n_groups)
    negatives = np.bincount(of_group, negative, n_groups)
    earlier = np.concatenate([[0.0], np.cumsum(negatives)])[of_group]
    below = np.cumsum(negative) - negative - earlier
    won = np.bincount(of_group, positive * (below + negative / 2.0), n_groups)
    pairs = positives * negatives
    return np.asarray(np.where(pairs > 0, won / np.where(pairs > 0, pairs, 1.0), np.nan), dtype=np.float64)


def reorder_rate(before: FloatArray, after: FloatArray) -> float:
    """Share of the pairs that ``before`` tells apart whose order ``after`` turns round; ties after do not count.

    >>> reorder_rate(np.array([0.1, 0.2, 0.3]), np.array([0.1, 0.4, 0.3]))
    0.3333333333333333
    """
    order = np.lexsort((after, before))
    first = before[order]
    run = np.diff(np.flatnonzero(np.concatenate([[True], first[1:] != first[:-1], [True]])))
    told_apart = 0.5 * (len(order) * (len(order) - 1.0) - float(np.sum(run * (run - 1.0))))
    if told_apart <= 0.0:
        return 0.0
    # Rows equal before stand in rising order of after, so no pair of them is an inversion.
    return _inversions(np.unique(after[order], return_inverse=True)[1]) / told_apart


@kernel
def _inversions(rank: npt.NDArray[np.int64]) -> float:
    """Pairs i < j with rank[i] > rank[j], by a Fenwick tree that counts the ranks so far; ranks begin with 0."""
    tree = np.zeros(rank.max() + 2, np.int64)
    total = 0.0
    for i in range(len(rank)):
        no_higher = 0
        at = rank[i] + 1
        while at > 0:
            no_higher += tree[at]
            at -= at & -at
        total += i - no_higher
        at = rank[i] + 1
        while at < len(tree):
            tree[at] += 1
            at += at & -at
    return total
