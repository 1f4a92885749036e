"""Ranking quality: the area under the ROC curve, with weights and ties, over all rows or within groups."""

import numpy as np
import numpy.typing as npt

from mbct.stats.divisions import Bins, atoms_by_group
from mbct.validation import FloatArray


def auc_of_atoms(atoms: Bins) -> float:
    """P(a positive is ranked above a negative) + ½·P(tie); not a number where one class is absent.

    >>> import numpy as np
    >>> auc_of_atoms(Bins(np.array([1.0, 2.0]), np.array([0.0, 1.0]), np.array([0.1, 1.0])))
    0.75
    """
    negative = atoms.count - atoms.label
    pairs = float(atoms.label.sum()) * float(negative.sum())
    below = np.cumsum(negative) - negative
    return float(np.sum(atoms.label * (below + negative / 2.0)) / pairs) if pairs > 0 else float("nan")


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
