"""Sums for Newton steps of groups of rows, such as leaves or values, and moving the rows by them."""

from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.validation import FloatArray

Groups = npt.NDArray[Any]
"""Number of each row's group, of any integer type."""


@kernel
def newton_sums(
    rows: npt.NDArray[np.int32],
    group: Groups,
    log_odds: FloatArray,
    count: FloatArray,
    label: FloatArray,
    n_groups: int,
) -> tuple[FloatArray, FloatArray]:
    """G = Σ(y − wq) and H = Σw·q(1 − q) of each group at q = σ(z), in one pass over the rows."""
    g = np.zeros(n_groups)
    h = np.zeros(n_groups)
    for i in rows:
        small = np.exp(-abs(log_odds[i]))
        q = (1.0 if log_odds[i] >= 0.0 else small) / (1.0 + small)
        g[group[i]] += label[i] - count[i] * q
        h[group[i]] += count[i] * q * (1.0 - q)
    return g, h


@kernel
def move(log_odds: FloatArray, change: FloatArray, group: Groups) -> None:
    """Add its group's change to every row's log-odds."""
    for i in range(len(log_odds)):
        log_odds[i] += change[group[i]]
