"""Cells: rows of equal codes, and the sums that stand for them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from mbct.errors import DataError
from mbct.model.bins import CodeMatrix, FeatureBins
from mbct.stats.probabilities import logit
from mbct.training.grouping import estimate_distinct, group_rows, hash_rows, prediction_bits, with_blocks
from mbct.validation import FloatArray

_WORTH_GROUPING = 0.5  # Group only if it leaves at most this share of the rows
_GONE = 1e-9  # Relative weight below which a cell that was subtracted counts as empty
Level = Literal["auto", "cell", "score", "row"]


@dataclass(frozen=True)
class Sums:
    """Six aligned arrays (or scalars), an entry for each set of rows: everything the trees need follows from them.

    ========== ============ ==============================================
    sum        formula      meaning
    ========== ============ ==============================================
    count      Σw           rows, or their weights
    label      Σw·y         positives
    pred       Σw·p         predicted positives
    pred2      Σw·p²        for the squared residual
    pred_label Σw·p·y       for the squared residual
    logit      Σw·logit(p)  for the ``odds`` link
    ========== ============ ==============================================

    Sums add up and fade; multiplying every prediction by k (a boosting round) keeps them closed.
    """

    count: FloatArray
    label: FloatArray
    pred: FloatArray
    pred2: FloatArray
    pred_label: FloatArray
    logit: FloatArray

    @classmethod
    def of_rows(cls, y_prob: FloatArray, y_true: FloatArray, weight: FloatArray) -> Self:
        """Every row a set of its own.

        >>> rows = Sums.of_rows(np.array([0.5, 0.25]), np.array([1.0, 0.0]), np.ones(2))
        >>> float(rows.total().pred2), float(rows.total().pred_label)
        (0.3125, 0.5)
        """
        weighted = weight * y_prob
        return cls(weight, weight * y_true, weighted, weighted * y_prob, weighted * y_true, weight * logit(y_prob))

    def _each(self, of: Callable[[FloatArray], FloatArray]) -> Self:
        return type(self)(*map(of, vars(self).values()))

    def __len__(self) -> int:
        return len(self.count)

    def scaled(self, factor: float) -> Self:
        """Every row counts ``factor`` times: how old days fade."""
        return self._each(lambda sums: sums * factor)

    def divided(self, amount: float) -> Self:
        """Every row counts as one of ``amount``; what is a multiple of it divides exactly."""
        return self._each(lambda sums: sums / amount)

    def take(self, index: Any) -> Self:
        """The sets at ``index`` (anything numpy accepts)."""
        return self._each(lambda sums: sums[index])

    def total(self) -> Self:
        """One set of all rows."""
        return self._each(lambda sums: np.sum(sums, axis=0))

    def grouped(self, group: npt.NDArray[np.integer[Any]], n_groups: int) -> Self:
        """Sets joined by their group number, 0 … n_groups − 1."""
        return self._each(lambda sums: np.bincount(group, sums, n_groups).astype(np.float64))


@dataclass(frozen=True)
class Cells:
    """Sets of rows with equal codes, and the sums that stand for them.

    Attributes
    ----------
    codes : ndarray of shape (n_cells, n_features)
        One row a cell, one column a feature.
    sums : Sums
        Sums of each cell: weight, labels, predictions and products of them.
    n_codes : tuple of int
        Number of codes of each feature.
    fingerprint : str
        Fingerprint of the bins that made the codes.
    one_score : bool
        Whether the rows of every cell share one prediction, so that nothing was lost by joining them.
    block : ndarray of int32 or None
        Block that each cell's rows belong to, such as a day or a person; with both, a column of each. None where rows
        are independent.
    """

    codes: CodeMatrix
    sums: Sums
    n_codes: tuple[int, ...]
    fingerprint: str
    one_score: bool
    block: npt.NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def total(self) -> Sums:
        """Sums over all cells."""
        return self.sums.total()

    def merge(self, *others: Self) -> Self:
        """The sums of these cells and ``others``, which must be coded with the same bins."""
        return self._joined(others, [other.sums for other in others])

    def subtract(self, other: Self) -> Self:
        """Cells without the rows of ``other``, which were merged in before; more rows than a cell holds are refused."""
        left = self._joined([other], [other.sums.scaled(-1.0)])
        scale = float(self.sums.count.max(initial=1.0))
        if np.any(left.sums.count < -_GONE * scale):
            cell = int(left.sums.count.argmin())
            raise DataError(
                f"cell {left.codes[cell].tolist()} would hold {left.sums.count[cell]:g} rows: "
                "only cells that were merged before can be subtracted"
            )
        return left.select(left.sums.count > _GONE * scale)

    def decay(self, factor: float) -> Self:
        """The same cells, every row counting ``factor`` (above 0, at most 1) as much: how old days fade."""
        if not 0.0 < factor <= 1.0:
            raise DataError(f"factor {factor!r} must be above 0 and at most 1")
        return replace(self, sums=self.sums.scaled(factor))

    def per(self, weight: float) -> Self:
        """All sums divided by the ``weight`` that stands for one row; multiples of it become whole numbers."""
        return self if weight == 1.0 else replace(self, sums=self.sums.divided(weight))

    def moved(self, step: FloatArray | float) -> Self:
        """The log-odds of every row moved by a ``step``, one for each cell or one for all; scores stay as they are."""
        return replace(self, sums=replace(self.sums, logit=self.sums.logit + self.sums.count * step))

    def select(self, index: np.ndarray) -> Self:
        """The cells at ``index``, their numbers or a mask, in its order."""
        block = None if self.block is None else self.block[index]
        sums = self.sums.take(index)
        return type(self)(self.codes[index], sums, self.n_codes, self.fingerprint, self.one_score, block)

    def canonical(self) -> Self:
        """The same cells in the order of their content's hash, whatever order they came in."""
        return self._regrouped(self.codes, self.sums, self.block)

    def _joined(self, others: Sequence[Self], sums: Sequence[Sums]) -> Self:
        """These cells and ``others``, with the ``sums`` of each of these."""
        for other in others:
            self._require_same_bins(other)
        codes = np.concatenate([self.codes, *(other.codes for other in others)])
        columns = zip(*(vars(part).values() for part in (self.sums, *sums)), strict=True)
        blocks = [part.block for part in (self, *others) if part.block is not None]
        joined = Sums(*(np.concatenate(arrays) for arrays in columns))
        return self._regrouped(codes, joined, np.concatenate(blocks) if blocks else None)

    def _regrouped(self, codes: CodeMatrix, sums: Sums, block: npt.NDArray[np.int32] | None) -> Self:
        score = sums.pred / np.where(sums.count == 0, 1.0, sums.count) if self.one_score else None
        group, first = group_rows(with_blocks(codes, block), score)
        return type(self)(
            np.ascontiguousarray(codes[first]),
            sums.grouped(group, len(first)),
            self.n_codes,
            self.fingerprint,
            self.one_score,
            None if block is None else block[first],
        )

    def _require_same_bins(self, other: Self) -> None:
        if other.fingerprint != self.fingerprint:
            raise DataError(
                f"cells of bins {other.fingerprint} cannot be joined with cells of bins {self.fingerprint}: "
                "aggregate both with the same FeatureBins"
            )
        if other.one_score != self.one_score:
            raise DataError("row-level cells cannot be joined with aggregated ones: build both at the same level")
        if (other.block is None) != (self.block is None):
            raise DataError("cells with blocks cannot be joined with cells without: build both with time or groups")


def build_cells(
    codes: CodeMatrix,
    y_prob: FloatArray,
    y_true: FloatArray,
    weight: FloatArray | None,
    bins: FeatureBins,
    level: Level = "auto",
    block: npt.NDArray[np.int32] | None = None,
) -> Cells:
    """Cells of rows.

    ``level``: "cell" joins rows of equal codes (the paper's aggregation); "score" joins rows of equal codes and equal
    prediction, which loses nothing, and puts them into an order of their own; "row" joins none; "auto" is "cell"
    where that at least halves the number and "row" elsewhere. Rows of two blocks are never joined.
    """
    weight = np.ones(len(y_prob)) if weight is None else weight
    hashes = None
    keys = with_blocks(codes, block)
    if level == "auto":
        hashes = hash_rows(keys, prediction_bits(None))
        level = "cell" if estimate_distinct(hashes) <= _WORTH_GROUPING * len(codes) else "row"
    if level == "row":
        sums = Sums.of_rows(y_prob, y_true, weight)
        return Cells(codes, sums, bins.n_codes, bins.fingerprint, one_score=True, block=block)
    group, first = group_rows(keys, y_prob if level == "score" else None, hashes)
    if level == "cell":
        sums = Sums.of_rows(y_prob, y_true, weight).grouped(group, len(first))
    else:
        count, label = (np.bincount(group, each, len(first)).astype(np.float64) for each in (weight, weight * y_true))
        sums = sums_of_equal_scores(count, label, y_prob[first])
    codes, own_block = np.ascontiguousarray(codes[first]), None if block is None else block[first]
    return Cells(codes, sums, bins.n_codes, bins.fingerprint, one_score=level == "score", block=own_block)


def sums_of_equal_scores(count: FloatArray, label: FloatArray, y_prob: FloatArray) -> Sums:
    """Sums from the two that need adding up, so that the order of rows cannot touch the others."""
    unit = Sums.of_rows(y_prob, np.ones(len(y_prob)), np.ones(len(y_prob)))
    return Sums(count, label, count * y_prob, count * unit.pred2, label * y_prob, count * unit.logit)
