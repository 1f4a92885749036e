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
def value_order(
    g: FloatArray, h: FloatArray, parent_shrinkage: float, ordered: bool
) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Order in which values are cut, and their keys: codes as they are, or values by G/(H + τ)."""
    if ordered:
        return np.arange(len(g)), np.arange(len(g)).astype(np.float64)
    key = g / (h + parent_shrinkage)
    return np.argsort(key), key


@kernel
def best_cut(
    g: FloatArray,
    h: FloatArray,
    order: npt.NDArray[np.int64],
    key: FloatArray,
    parent: float,
    parent_shrinkage: float,
    min_curvature: float,
    rate: float,
) -> tuple[int, float, float, float]:
    """Last position of the left side (−1: no cut), both values and the gain at the applied value.

    Values whose keys are equal but for rounding are not cut apart, so that their names cannot matter.
    """
    g_all = g.sum()
    h_all = h.sum()
    best = NO_SPLIT
    position = -1
    k_left = parent
    k_right = parent
    g_left = 0.0
    h_left = 0.0
    for t in range(len(order) - 1):
        g_left += g[order[t]]
        h_left += h[order[t]]
        h_right = h_all - h_left
        if h_left < min_curvature:
            continue
        if h_right < min_curvature:
            break
        here, after = key[order[t]], key[order[t + 1]]
        if after - here <= _TIE * (abs(here) + abs(after)):
            continue
        g_right = g_all - g_left
        left = shrunk_value(g_left, h_left, parent, parent_shrinkage)
        right = shrunk_value(g_right, h_right, parent, parent_shrinkage)
        gain = gain_of(left, g_left, h_left, rate) + gain_of(right, g_right, h_right, rate)
        if position < 0 or clearly_above(gain, best):
            best, position, k_left, k_right = gain, t, left, right
    return position, k_left, k_right, best


@kernel
def _gain_on_other_half(
    histogram: FloatArray,
    active: npt.NDArray[np.int64],
    half: int,
    ordered: bool,
    parent: float,
    parent_shrinkage: float,
    min_curvature: float,
    rate: float,
) -> float:
    """Order, cut and values from one half of the rows; the gain they bring on the other."""
    g = np.empty(len(active))
    h = np.empty(len(active))
    for t in range(len(active)):
        g[t] = histogram[active[t], 2 * half]
        h[t] = histogram[active[t], 2 * half + 1]
    order, key = value_order(g, h, parent_shrinkage, ordered)
    position, left, right, _ = best_cut(g, h, order, key, parent, parent_shrinkage, 0.5 * min_curvature, rate)
    other = 1 - half
    gain = 0.0
    for t in range(len(active)):
        code = active[order[t]]
        k = left if t <= position else right
        gain += gain_of(k, histogram[code, 2 * other], histogram[code, 2 * other + 1], rate)
    return gain


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
        if histogram[c, 1] + histogram[c, 3] > 0.0:
            active[n_active] = c
            n_active += 1
    if n_active < 2:
        return NO_SPLIT
    active = active[:n_active]
    g = np.empty(n_active)
    h = np.empty(n_active)
    for t in range(n_active):
        g[t] = histogram[active[t], 0] + histogram[active[t], 2]
        h[t] = histogram[active[t], 1] + histogram[active[t], 3]
    order, key = value_order(g, h, parent_shrinkage, ordered)
    position, _, _, score = best_cut(g, h, order, key, value, parent_shrinkage, min_curvature, rate)
    if position < 0:
        return NO_SPLIT
    h_left = 0.0
    for t in range(position + 1):
        h_left += h[order[t]]
    side[: n_codes - 2] = 0 if 2.0 * h_left >= h.sum() else 1
    side[n_codes - 2 : n_codes] = 2
    if ordered:
        threshold = active[order[position]]
        for c in range(n_codes - 2):
            side[c] = 0 if c <= threshold else 1
    for t in range(n_active):
        side[active[order[t]]] = 0 if t <= position else 1
    if not cross_fitted:
        return score
    crossed = 0.0
    for half in range(2):
        crossed += _gain_on_other_half(
            histogram, active, half, ordered, half_values[half], parent_shrinkage, min_curvature, rate
        )
    return crossed
