"""Random intercepts of blocks: what the rows of a day have in common is removed before trees see the residuals.

Rows of one block share a shock v_b of variance σ² in the log-odds. At prediction q a block has the gradient
G_b = Σw(y − q) and the curvature H_b = Σw·q(1 − q), with E[G_b²] = H_b + σ²H_b². The best linear predictor of the shock
is v_b = (G_b − a·H_b)/(H_b + 1/σ²) around the common intercept a, and the gradient that is left of a row,
w(y − q) − w·q(1 − q)·(a + v_b), has mean zero wherever the predictions are right on average: these are the estimating
equations of generalized least squares (GEE; Liang and Zeger, 1986), so a difference between rows of one block counts in
full, and a difference between blocks only as much as so few blocks can tell.
"""

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.stats.probabilities import probability_of
from mbct.training.folds import BlockNumbers
from mbct.training.splitter import GradientArray
from mbct.validation import FloatArray

NO_INTERCEPTS = np.empty(0)
"""Of rows that are independent."""
_VARIANCE_PASSES = 3
_LEAST_VARIANCE = 1e-6


@kernel
def block_sums(
    rows: npt.NDArray[np.int32],
    log_odds: FloatArray,
    weight: FloatArray,
    label: FloatArray,
    block: BlockNumbers,
    n_blocks: int,
    out: GradientArray,
) -> tuple[FloatArray, FloatArray]:
    """Gradient and curvature of each block; those of the rows are written to the first two columns of ``out``."""
    g = np.zeros(n_blocks)
    h = np.zeros(n_blocks)
    for i in rows:
        q = probability_of(log_odds[i])
        gradient = label[i] - weight[i] * q
        curvature = weight[i] * q * (1.0 - q)
        out[i, 0] = gradient
        out[i, 1] = curvature
        g[block[i]] += gradient
        h[block[i]] += curvature
    return g, h


def gradients_within_blocks(
    rows: npt.NDArray[np.int32],
    log_odds: FloatArray,
    weight: FloatArray,
    label: FloatArray,
    block: BlockNumbers,
    half: npt.NDArray[np.uint8],
    out: GradientArray,
) -> FloatArray:
    """Gradients of rows without the intercepts of their blocks, which are returned; ``half`` is that of each block."""
    g, h = block_sums(rows, log_odds, weight, label, block, len(half), out)
    mean, shock = block_intercepts(g, h)
    within_blocks(rows, mean + shock, block, half, out)
    return mean + shock


def block_intercepts(g: FloatArray, h: FloatArray) -> tuple[float, FloatArray]:
    """The common intercept a by generalized least squares, and the predicted shock v_b of each block.

    Blocks without rows have no shock.

    >>> mean, shock = block_intercepts(np.array([30.0, -30.0, 30.0, -30.0]), np.full(4, 100.0))
    >>> round(mean, 9), np.round(shock, 2).tolist()
    (0.0, [0.27, -0.27, 0.27, -0.27])
    """
    mean, variance = intercept_and_variance(g, h)
    return mean, (g - h * mean) / (h + 1.0 / variance)


def intercept_and_variance(g: FloatArray, h: FloatArray) -> tuple[float, float]:
    """The common intercept a of all blocks, and the variance σ² of their shocks, estimated by moments."""
    seen = h > 0.0
    g, h = g[seen], h[seen]
    variance = _LEAST_VARIANCE
    for _ in range(_VARIANCE_PASSES):
        weight = 1.0 / (1.0 + h * variance)
        mean = float(np.sum(weight * g) / np.sum(weight * h))
        rest = g - h * mean
        moment = float(np.sum(weight**2 * (rest**2 - h)) / np.sum((weight * h) ** 2))
        variance = max(moment, _LEAST_VARIANCE)
    return mean, variance


@kernel
def within_blocks(
    rows: npt.NDArray[np.int32],
    intercept: FloatArray,
    block: BlockNumbers,
    half: npt.NDArray[np.uint8],
    out: GradientArray,
) -> None:
    """Take the blocks' intercepts out of the gradients in ``out``'s first columns, and put rows into their half."""
    for i in rows:
        b = block[i]
        curvature = out[i, 1]
        gradient = out[i, 0] - curvature * intercept[b]
        first = half[b] == 0
        out[i, 0] = gradient if first else 0.0
        out[i, 1] = curvature if first else 0.0
        out[i, 2] = 0.0 if first else gradient
        out[i, 3] = 0.0 if first else curvature
