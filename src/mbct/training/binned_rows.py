"""Rows, or parts of cells, thrown into folds: what honest growth works on, and how sure a gain on left-out rows is."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix, code_offsets
from mbct.stats.duplicates import Copies, find_copies, rate_by_score
from mbct.training.cells import Cells
from mbct.training.fold_split import thin
from mbct.validation import FloatArray

RowNumbers = npt.NDArray[np.int32]
_SURE = np.log(200.0)
"""Evidence of 200 to 1, from which a correction is trusted: a rule, not a guarantee (see :class:`Gain`)."""
_SURE_TOGETHER = 16.0
"""Nats of all folds together from which it is trusted as well: many folds may each see a little of it."""


@dataclass(frozen=True)
class Parts:
    """Rows, or parts of cells, to boost on: codes, where their log-odds start, mass, positives and fold.

    ``whole``: what stands in one place is one row, whatever its mass.
    """

    codes: CodeMatrix
    log_odds: FloatArray
    count: FloatArray
    label: FloatArray
    fold: npt.NDArray[np.uint8]
    offset: npt.NDArray[np.int64]
    ordered: npt.NDArray[np.bool_]
    usable: npt.NDArray[np.int64]
    whole: bool = False

    def rows_of(self, fold: int) -> RowNumbers:
        """Rows that ``fold`` leaves out and is judged on."""
        return np.flatnonzero(self.fold == fold).astype(np.int32)

    def rows_but(self, fold: int) -> RowNumbers:
        """Rows that ``fold`` learns from: those of all others."""
        return np.flatnonzero(self.fold != fold).astype(np.int32)

    @property
    def all_rows(self) -> RowNumbers:
        """Every row."""
        return np.arange(len(self.count), dtype=np.int32)

    def loss(self, rows: RowNumbers, log_odds: FloatArray) -> float:
        """Summed log loss of some rows, in nats."""
        return summed_log_loss(rows, log_odds, self.count, self.label)

    def held_out_loss(self, log_odds: Sequence[FloatArray]) -> float:
        """Mean log loss of all rows, each at the log-odds of the fold that leaves it out."""
        total = sum(self.loss(self.rows_of(fold), z) for fold, z in enumerate(log_odds))
        return total / float(self.count.sum())


def copies_in(cells: Cells) -> Copies:
    """Whether cells hold rows, or copies of rows."""
    sums = cells.sums
    return find_copies(sums.count, sums.label, rate_by_score(sums.count, sums.label, sums.logit / sums.count))


def parts_of(
    cells: Cells, ordered: tuple[bool, ...], usable: Sequence[int], n_folds: int, seed: int, *, whole: bool = False
) -> Parts:
    """Spread cells over folds, row by row or ``whole``.

    A cell moves at the mean log-odds of its rows, which is exact for row-level cells. ``usable`` numbers the features
    that trees may split by.
    """
    thinned = thin(cells.sums.count, cells.sums.label, n_folds, seed, whole=whole)
    start = cells.sums.logit / cells.sums.count
    unparted = len(thinned.cell) == len(cells)
    return Parts(
        cells.codes if unparted else np.ascontiguousarray(cells.codes[thinned.cell]),
        start if unparted else start[thinned.cell],
        thinned.count,
        thinned.label,
        thinned.fold,
        code_offsets(cells.n_codes),
        np.array(ordered, dtype=np.bool_),
        np.array(usable, dtype=np.int64),
        whole,
    )


@kernel
def summed_log_loss(rows: RowNumbers, log_odds: FloatArray, count: FloatArray, label: FloatArray) -> float:
    """Log loss of some rows, in nats."""
    total = 0.0
    for i in rows:
        z = log_odds[i]
        total += count[i] * (max(z, 0.0) + np.log1p(np.exp(-abs(z)))) - label[i] * z
    return total


@dataclass(frozen=True)
class Gain:
    """Fall of the mean log loss on left-out rows, its standard error, and the evidence that it is no chance.

    ``evidence`` is log mean_k exp(G_k), with G_k the nats that fold k's rows gain from a model not grown on them.
    Under a calibrated base, and for a model fixed without fold k, exp(G_k) is a likelihood ratio of mean 1; so is the
    mean over folds, which by Markov's inequality would exceed 200 in at most one data set in 200. Here that holds only
    approximately: the number of trees, their size, line and effects or none and the ranking are chosen on the same
    left-out rows, which lifts G_k. So 200 is a rule, not a guarantee, and what it does was measured
    (``benchmarks/known_truth.py``): of 200 fresh calibrated bases none was changed. Of 400 earlier ones, in view of
    which the rule was made and before there were lines and effects, the largest was 161 to 1, the next 29 to 1.

    ``together`` is the sum of the G_k. The folds' models share rows, so it is no logarithm of a likelihood ratio, and
    its limit is a rule as well: of 350 calibrated bases, in view of which it was chosen, the largest had 11.7 nats,
    the next 7.3.
    """

    value: float
    standard_error: float
    evidence: float
    together: float

    @property
    def trust(self) -> float:
        """How much of a correction to keep: 1 − 1/z² at z standard errors; nothing where chance gives as much."""
        sure = self.evidence >= _SURE or self.together >= _SURE_TOGETHER
        if not sure or self.value <= self.standard_error:
            return 0.0
        return 1.0 - (self.standard_error / self.value) ** 2


def gain_of_rows(gain: FloatArray, square: FloatArray, mass: float, fold: npt.NDArray[np.uint8]) -> Gain:
    """Of each part's summed gain and summed squared gain of its rows."""
    mean = float(np.sum(gain)) / mass
    variance = max(float(np.sum(square)) / mass - mean * mean, 0.0)
    nats = np.bincount(fold, gain)
    top = float(nats.max())
    evidence = top + float(np.log(np.mean(np.exp(nats - top))))
    return Gain(mean, float(np.sqrt(variance / mass)), evidence, float(nats.sum()))


def held_out_gain(parts: Parts, before: FloatArray, after: FloatArray) -> Gain:
    """Fall of the log loss; the rows of a cell count one by one."""
    if_positive = np.logaddexp(0.0, -before) - np.logaddexp(0.0, -after)
    if_negative = np.logaddexp(0.0, before) - np.logaddexp(0.0, after)
    negatives = parts.count - parts.label
    return gain_of_rows(
        parts.label * if_positive + negatives * if_negative,
        parts.label * if_positive**2 + negatives * if_negative**2,
        float(parts.count.sum()),
        parts.fold,
    )
