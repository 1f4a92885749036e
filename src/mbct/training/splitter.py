"""Histograms of gradients, and the search for a split in them.

The cut comes from all rows, the feature is ranked by what such a cut gains on other rows.
A node's value on the log-odds is shrunk to its parent's, k = (G + τ·k_parent)/(H + τ). Applying it at rate η gains
η·k·G − ½·η²·k²·H in log-likelihood. Ranking features by the gain on the rows that chose the cut rewards features with
many values; here order, cut and values come from one random half and the gain from the other, both ways.
"""

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix
from mbct.validation import FloatArray

NO_SPLIT = -1e300
_TIE = 1e-11


GradientArray = npt.NDArray[np.float32]
"""Shape (rows, 4): G and H of the first half, G and H of the second."""

_EMPTY = 1e-6  # Curvature below which a code counts as empty after a subtraction


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


@kernel
def shrunk_value(g: float, h: float, parent: float, parent_shrinkage: float) -> float:
    """K = (G + τ·k_parent)/(H + τ)."""
    return (g + parent_shrinkage * parent) / (h + parent_shrinkage)


@kernel
def gain_of(k: float, g: float, h: float, rate: float) -> float:
    """η·k·G − ½·η²·k²·H."""
    return rate * k * g - 0.5 * rate * rate * k * k * h


@kernel
def clearly_above(value: float, other: float) -> bool:
    """Whether a gain beats another by more than the noise of summation."""
    return value > other + _TIE * (abs(other) + 1e-30)


@kernel
def best_cut(
    g: FloatArray,
    h: FloatArray,
    key: FloatArray,
    parent: float,
    parent_shrinkage: float,
    min_curvature: float,
    rate: float,
) -> tuple[int, float, float, float]:
    """Last position of the left side (−1: no cut), both values and the gain at the applied value.

    Values come in the order in which they may be cut. Neighbours whose keys are equal but for rounding are not cut
    apart, so that their names cannot matter; ``key`` is empty where the order is that of codes.
    """
    g_all = 0.0
    h_all = 0.0
    for t in range(len(g)):
        g_all += g[t]
        h_all += h[t]
    best = NO_SPLIT
    position = -1
    k_left = parent
    k_right = parent
    g_left = 0.0
    h_left = 0.0
    for t in range(len(g) - 1):
        g_left += g[t]
        h_left += h[t]
        h_right = h_all - h_left
        if h_left < min_curvature:
            continue
        if h_right < min_curvature:
            break
        if len(key) > 0 and key[t + 1] - key[t] <= _TIE * (abs(key[t]) + abs(key[t + 1])):
            continue
        g_right = g_all - g_left
        left = shrunk_value(g_left, h_left, parent, parent_shrinkage)
        right = shrunk_value(g_right, h_right, parent, parent_shrinkage)
        gain = gain_of(left, g_left, h_left, rate) + gain_of(right, g_right, h_right, rate)
        if position < 0 or clearly_above(gain, best):
            best, position, k_left, k_right = gain, t, left, right
    return position, k_left, k_right, best


@kernel
def value_order(g: FloatArray, h: FloatArray, parent_shrinkage: float) -> npt.NDArray[np.int64]:
    """Order in which values without one are cut: by G/(H + τ)."""
    return np.argsort(g / (h + parent_shrinkage))


@kernel
def _gain_on_other_half(
    sums: FloatArray,
    half: int,
    ordered: bool,
    parent: float,
    parent_shrinkage: float,
    min_curvature: float,
    rate: float,
) -> float:
    """Order, cut and values from one half of the rows; the gain they bring on the other. ``sums`` has a row a sum."""
    g, h = sums[2 * half], sums[2 * half + 1]
    g_other, h_other = sums[2 - 2 * half], sums[3 - 2 * half]
    key = g[:0]
    if not ordered:
        order = value_order(g, h, parent_shrinkage)
        g, h, g_other, h_other = g[order], h[order], g_other[order], h_other[order]
        key = g / (h + parent_shrinkage)
    position, left, right, _ = best_cut(g, h, key, parent, parent_shrinkage, 0.5 * min_curvature, rate)
    g_left = 0.0
    h_left = 0.0
    g_right = 0.0
    h_right = 0.0
    for t in range(position + 1):
        g_left += g_other[t]
        h_left += h_other[t]
    for t in range(position + 1, len(g)):
        g_right += g_other[t]
        h_right += h_other[t]
    return gain_of(left, g_left, h_left, rate) + gain_of(right, g_right, h_right, rate)


@kernel
def search_feature(
    histogram: FloatArray,
    ordered: bool,
    cross_fitted: bool,
    value: float,
    half_values: FloatArray,
    parent_shrinkage: float,
    min_curvature: float,
    rate: float,
    side: npt.NDArray[np.uint8],
) -> float:
    """Score of the best cut of one feature in one node, which side each code takes written to ``side``.

    ``side``: 0 left, 1 right, 2 neither. A known value that no row of the node has goes where most rows go (or, of a
    number, with its neighbours), so that later splits reach it; a missing or unseen one then stays at the node.
    """
    n_codes = len(histogram)
    active = np.empty(n_codes, np.int64)
    n_active = 0
    for c in range(n_codes):
        active[n_active] = c
        n_active += histogram[c, 1] + histogram[c, 3] > 0.0
    if n_active < 2:
        return NO_SPLIT
    sums = np.empty((4, n_active))
    g = np.empty(n_active)
    h = np.empty(n_active)
    for t in range(n_active):
        c = active[t]
        for column in range(4):
            sums[column, t] = histogram[c, column]
        g[t] = histogram[c, 0] + histogram[c, 2]
        h[t] = histogram[c, 1] + histogram[c, 3]
    active = active[:n_active]
    key = g[:0]
    if not ordered:
        order = value_order(g, h, parent_shrinkage)
        active, g, h = active[order], g[order], h[order]
        key = g / (h + parent_shrinkage)
    position, _, _, score = best_cut(g, h, key, value, parent_shrinkage, min_curvature, rate)
    if position < 0:
        return NO_SPLIT
    h_left = 0.0
    for t in range(position + 1):
        h_left += h[t]
    side[: n_codes - 2] = 0 if 2.0 * h_left >= h.sum() else 1
    side[n_codes - 2 : n_codes] = 2
    if ordered:
        threshold = active[position]
        for c in range(n_codes - 2):
            side[c] = 0 if c <= threshold else 1
    for t in range(n_active):
        side[active[t]] = 0 if t <= position else 1
    if not cross_fitted:
        return score
    crossed = 0.0
    for half in range(2):
        crossed += _gain_on_other_half(sums, half, ordered, half_values[half], parent_shrinkage, min_curvature, rate)
    return crossed
