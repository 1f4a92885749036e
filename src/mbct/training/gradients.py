"""Gradients of the training loss, their histograms, and the leaf values that follow from them.

At prediction q the log loss has gradient G = Σw(y − q) and curvature H = Σw·q(1 − q) in the log-odds. Both are kept
for two random halves of the rows, four numbers in all, so that a split chosen on one half is evaluated on the other.
Rows then settle in the leaves of the grown tree, move by their values, and refit them by Newton steps.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix
from mbct.model.tree import IntArray
from mbct.stats.random_stream import half_of, random_bits
from mbct.training.folds import BlockNumbers
from mbct.validation import FloatArray

GradientArray = npt.NDArray[np.float32]
"""Shape (rows, 4): G and H of the first half, G and H of the second."""

_EMPTY = 1e-6  # Curvature below which a code counts as empty after a subtraction


@kernel
def gradients(
    rows: npt.NDArray[np.int32],
    log_odds: FloatArray,
    weight: FloatArray,
    label: FloatArray,
    seed: np.uint64,
    cross_fitted: bool,
    atomic: bool,
    out: GradientArray,
) -> None:
    """Gradient and curvature of the rows (or parts of cells), split into two random halves.

    A part of several rows is split row by row, unless it is ``atomic``. Without ``cross_fitted`` everything lies in
    the first half.
    """
    for i in rows:
        small = np.exp(-abs(log_odds[i]))
        q = (1.0 if log_odds[i] >= 0.0 else small) / (1.0 + small)
        curvature = q * (1.0 - q)
        if cross_fitted and (atomic or weight[i] == 1.0):
            half = int(random_bits(seed, i, 0) >> np.uint64(63))
            out[i, 2 * half] = label[i] - weight[i] * q
            out[i, 2 * half + 1] = weight[i] * curvature
            out[i, 2 - 2 * half] = 0.0
            out[i, 3 - 2 * half] = 0.0
            continue
        positives = label[i]
        negatives = weight[i] - label[i]
        first_positives = half_of(positives, seed, i, 0) if cross_fitted else positives
        first_negatives = half_of(negatives, seed, i, 1) if cross_fitted else negatives
        second_positives = positives - first_positives
        second_negatives = negatives - first_negatives
        first = first_positives + first_negatives
        second = second_positives + second_negatives
        out[i, 0] = first_positives - first * q
        out[i, 1] = first * curvature
        out[i, 2] = second_positives - second * q
        out[i, 3] = second * curvature


@kernel
def add_rows(
    codes: CodeMatrix,
    gradient: GradientArray,
    features: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int32],
    offset: npt.NDArray[np.int64],
    out: FloatArray,
) -> None:
    """Histogram of the rows in the chosen features.

    Unsigned indices spare the check for negative ones, which would cost as much as the sums themselves.
    """
    n_used = len(features)
    column = np.empty(n_used, np.uint64)
    base = np.empty(n_used, np.uint64)
    for t in range(n_used):
        column[t] = features[t]
        base[t] = offset[features[t]]
        out[offset[features[t]] : offset[features[t] + 1]] = 0.0
    for r in range(len(rows)):
        i = np.uint64(rows[r])
        g0 = gradient[i, 0]
        h0 = gradient[i, 1]
        g1 = gradient[i, 2]
        h1 = gradient[i, 3]
        for t in range(n_used):
            k = base[t] + np.uint64(codes[i, column[t]])
            out[k, 0] += g0
            out[k, 1] += h0
            out[k, 2] += g1
            out[k, 3] += h1


@kernel
def subtract(
    parent: FloatArray, child: FloatArray, features: npt.NDArray[np.int64], offset: npt.NDArray[np.int64]
) -> None:
    """The parent's histogram becomes the other child's; what is left by rounding is cleared."""
    for j in features:
        for c in range(offset[j], offset[j + 1]):
            for half in range(2):
                g = parent[c, 2 * half] - child[c, 2 * half]
                h = parent[c, 2 * half + 1] - child[c, 2 * half + 1]
                empty = h < _EMPTY
                parent[c, 2 * half] = 0.0 if empty else g
                parent[c, 2 * half + 1] = 0.0 if empty else h


class GrownTree(NamedTuple):
    """A grown tree's arrays and the rows, with each node's range among them.

    ``intercept`` of each block that was taken out of the gradients; empty where rows are independent.
    """

    feature: IntArray
    table_start: npt.NDArray[np.int64]
    table: IntArray
    step: FloatArray
    rows: npt.NDArray[np.int32]
    begin: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    intercept: FloatArray


@kernel
def settle_rows(
    tree: GrownTree,
    step: FloatArray,
    gradient: GradientArray,
    weight: FloatArray,
    label: FloatArray,
    log_odds: FloatArray,
    block: BlockNumbers,
) -> FloatArray:
    """Move the rows a tree was grown on by their leaf's step; returns count, label and prediction sums of each node.

    Σq needs no logarithm: it is Σy − G, to which what was taken out of G for the row's block comes back.
    """
    n_nodes = len(tree.feature)
    sums = np.zeros((n_nodes, 3))
    for node in range(n_nodes - 1, -1, -1):
        if tree.feature[node] < 0:
            total = 0.0
            positives = 0.0
            predicted = 0.0
            for t in range(tree.begin[node], tree.end[node]):
                i = np.uint64(tree.rows[t])
                total += weight[i]
                positives += label[i]
                predicted += label[i] - gradient[i, 0] - gradient[i, 2]
                if len(tree.intercept) > 0:
                    predicted -= (gradient[i, 1] + gradient[i, 3]) * tree.intercept[block[i]]
                log_odds[i] += step[node]
            sums[node, 0], sums[node, 1], sums[node, 2] = total, positives, predicted
        else:
            left = tree.table[tree.table_start[node] : _table_end(tree, node)].max() - 1
            sums[node] = sums[left] + sums[left + 1]
    return sums


@kernel
def _table_end(tree: GrownTree, node: int) -> int:
    for later in range(node + 1, len(tree.feature)):
        if tree.table_start[later] > tree.table_start[node]:
            return int(tree.table_start[later])
    return len(tree.table)


Groups = npt.NDArray[Any]
"""Number of each row's group, such as a leaf or a value, of any integer type."""


@kernel
def newton_sums(
    rows: npt.NDArray[np.int32],
    group: Groups,
    log_odds: FloatArray,
    weight: FloatArray,
    label: FloatArray,
    n_groups: int,
) -> tuple[FloatArray, FloatArray]:
    """G = Σ(y − wq) and H = Σw·q(1 − q) of each group at q = σ(z), in one pass over the rows."""
    g = np.zeros(n_groups)
    h = np.zeros(n_groups)
    for i in rows:
        small = np.exp(-abs(log_odds[i]))
        q = (1.0 if log_odds[i] >= 0.0 else small) / (1.0 + small)
        g[group[i]] += label[i] - weight[i] * q
        h[group[i]] += weight[i] * q * (1.0 - q)
    return g, h


@kernel
def move(log_odds: FloatArray, change: FloatArray, group: Groups) -> None:
    """Add its group's change to every row's log-odds."""
    for i in range(len(log_odds)):
        log_odds[i] += change[group[i]]
