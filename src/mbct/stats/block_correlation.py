"""Do rows of one block share their residuals? Intra-class correlation, and a permutation test of it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.validation import FloatArray


@dataclass(frozen=True)
class BlockCorrelation:
    """Intra-class correlation of residuals and the share of random groupings that reach it."""

    value: float
    p_value: float


def block_correlation(
    y_true: FloatArray, y_prob: FloatArray, block: npt.NDArray[np.integer], *, n_permutations: int = 99, seed: int = 0
) -> BlockCorrelation:
    """Mean product of the standardized residuals of two rows of one block, tested against permuted blocks.

    With r_i = (y_i − p_i)/√(p_i(1 − p_i)) less its mean, over all pairs of rows of one block,
    ρ = Σ_b((Σr)² − Σr²) / Σ_b n_b(n_b − 1).

    >>> rng = np.random.default_rng(0)
    >>> block = np.repeat(np.arange(200), 20)
    >>> shock = rng.normal(0.0, 1.0, 200)[block]
    >>> shared = (rng.random(4000) < 1.0 / (1.0 + np.exp(-shock))).astype(float)
    >>> found = block_correlation(shared, np.full(4000, 0.5), block)
    >>> round(found.value, 1), found.p_value
    (0.2, 0.01)
    """
    variance = np.clip(y_prob * (1.0 - y_prob), 1e-6, None)
    residual = (y_true - y_prob) / np.sqrt(variance)
    residual -= residual.mean()
    _, number, size = np.unique(block, return_inverse=True, return_counts=True)
    pairs = float(np.sum(size * (size - 1.0)))
    if pairs == 0.0:
        return BlockCorrelation(0.0, 1.0)
    own = float(np.sum(residual**2))

    def shared(values: FloatArray) -> float:
        return float(np.sum(np.bincount(number, values) ** 2)) - own

    found = shared(residual)
    rng = np.random.default_rng(seed)
    reached = sum(shared(rng.permutation(residual)) >= found for _ in range(n_permutations))
    return BlockCorrelation(found / pairs, (1.0 + reached) / (1.0 + n_permutations))
