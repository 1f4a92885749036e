"""Totals of rows that belong to blocks, such as days or patients: standard errors and tests from the sums of blocks."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtr, stdtrit

from mbct.validation import FloatArray

_DENSE = 4  # Combinations of group and block for each row up to which all of them are counted
_FEWEST = 2.0  # Blocks in effect below which nothing is known about how much they vary


@dataclass(frozen=True)
class BlockTotals:
    """Total of each group of rows, its standard error, and the number of equal blocks that its blocks are worth.

    That number is (Σn)²/Σn² of the weights n of the blocks; one less are the degrees of freedom of Student's t.
    """

    total: FloatArray
    error: FloatArray
    effective: FloatArray

    @property
    def p_values(self) -> FloatArray:
        """Two-sided p-value of a true total of 0; 1 where fewer than two blocks are in effect."""
        certain = np.where(self.total == 0.0, 0.0, np.inf)
        t = np.where(self.error > 0.0, np.abs(self.total) / np.maximum(self.error, 1e-300), certain)
        return np.where(self.effective >= _FEWEST, 2.0 * stdtr(np.maximum(self.effective - 1.0, 1.0), -t), 1.0)

    def design_effect(self, variance: FloatArray, confidence: float) -> FloatArray:
        """By what a group's number of rows is to be divided for intervals that take rows for independent (Kish).

        ``variance`` is that of the total if rows were independent; blocks that vary less than that count like rows. A
        wider quantile for few blocks is allowed for (Korn & Graubard 1998). Infinite below two blocks in effect.
        """
        tail = 0.5 - confidence / 2.0
        wider = stdtrit(np.maximum(self.effective - 1.0, 1.0), tail) / ndtri(tail)
        ratio = np.maximum(self.error**2 / np.maximum(variance, 1e-300), 1.0)
        return np.where(self.effective >= _FEWEST, ratio * wider**2, np.inf)


def totals_by_block(
    values: FloatArray,
    weight: FloatArray,
    group: npt.NDArray[np.integer],
    n_groups: int,
    block: npt.NDArray[np.integer],
    *,
    in_order: bool,
) -> BlockTotals:
    """Total of ``values`` in each group, with the standard error of its sums over blocks about their mean.

    Blocks that are ``in_order`` of time may be correlated with their neighbours, see :func:`error_of_total`.

    >>> found = totals_by_block(np.array([1.0, 3.0]), np.ones(2), np.zeros(2, int), 1, np.arange(2), in_order=False)
    >>> found.total.tolist(), found.error.tolist(), found.effective.tolist()
    ([4.0], [2.0], [2.0])
    """
    n_blocks = int(block.max(initial=0)) + 1
    cell, position = _occupied(group.astype(np.int64) * n_blocks + block, n_groups * n_blocks)
    of_group = cell // n_blocks
    size, sums = (np.bincount(position, each).astype(np.float64) for each in (weight, values))
    total_size, total = (np.bincount(of_group, each, n_groups).astype(np.float64) for each in (size, sums))
    present = np.where(total_size > 0.0, total_size, 1.0)
    centred = sums - (total / present)[of_group] * size
    variance = np.bincount(of_group, centred**2, n_groups)
    if in_order:
        lagged = np.zeros(n_groups)
        for lag, factor in enumerate(lag_weights(n_blocks), start=1):
            later = np.minimum(np.searchsorted(cell, cell + lag), len(cell) - 1)
            both = (cell[later] == cell + lag) & (of_group[later] == of_group)
            lagged += factor * np.bincount(of_group[both], (centred * centred[later])[both], n_groups)
        variance = np.maximum(variance, variance + lagged)
    blocks = np.bincount(of_group, minlength=n_groups)
    error = np.sqrt(variance * blocks / np.maximum(blocks - 1.0, 1.0))
    effective = total_size**2 / np.maximum(np.bincount(of_group, size**2, n_groups), 1e-300)
    return BlockTotals(total, error, effective)


def _occupied(number: npt.NDArray[np.int64], most: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The numbers that occur, rising, and the position of each row's among them; rows are sorted only if need be."""
    if most > _DENSE * len(number):
        return np.unique(number, return_inverse=True)
    occurs = np.bincount(number, minlength=most) > 0
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[number]


def error_of_total(sums: FloatArray, *, in_order: bool) -> float:
    """Standard error of the total of block sums of mean zero.

    Blocks that are ``in_order`` of time may be correlated with their neighbours: the larger of the estimates without
    and with that (Newey and West, 1987) is taken.

    >>> float(error_of_total(np.array([1.0, -1.0, 1.0, -1.0]), in_order=False)) ** 2
    5.333333333333333
    """
    n_blocks = len(sums)
    variance = float(np.sum(sums**2))
    if in_order:
        weights = lag_weights(n_blocks)
        lagged = [float(np.sum(sums[lag:] * sums[:-lag])) for lag in range(1, len(weights) + 1)]
        variance = max(variance, variance + sum(w * c for w, c in zip(weights, lagged, strict=True)))
    return float(np.sqrt(variance * n_blocks / max(n_blocks - 1, 1)))


def lag_weights(n_blocks: int) -> list[float]:
    """Weights of the products of blocks 1, 2, … apart in the variance of a total, twice Bartlett's (Newey and West)."""
    n_lags = min(int(4.0 * (n_blocks / 100.0) ** (2.0 / 9.0)), n_blocks - 1)
    return [2.0 * (1.0 - lag / (n_lags + 1.0)) for lag in range(1, n_lags + 1)]
