"""Gradients and their histograms: every row's gradient is kept apart by a random half of the rows.

At prediction q the log loss has gradient G = Σw(y − q) and curvature H = Σw·q(1 − q) in the log-odds. Both are kept
for two random halves of the rows, four numbers in all, so that a split chosen on one half is evaluated on the other.
"""

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix
from mbct.training.blocks import half_of, random_bits
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
