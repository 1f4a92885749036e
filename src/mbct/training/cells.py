"""Cells: rows of equal codes (found by a 64-bit hash, one sort, one pass) and the sums that stand for them."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from mbct.errors import DataError
from mbct.jit import kernel
from mbct.model.bins import CodeMatrix, FeatureBins
from mbct.stats.random_stream import mix
from mbct.stats.sums import Sums
from mbct.validation import FloatArray

_SAMPLE_SHIFT = np.uint64(58)
"""Rows whose hash begins with six zero bits, one in 64, are counted to estimate the number of cells."""


_N_PARTS = 16
_PART_SHIFT = np.uint64(60)  # The four leading bits of a hash say which of 16 parts it belongs to
_WORTH_PARTS = 200_000


@kernel
def hash_rows(codes: CodeMatrix, bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Hash of each row's codes, and of ``bits`` (the prediction's) where that is not empty."""
    n_rows, n_features = codes.shape
    hashes = np.empty(n_rows, np.uint64)
    for i in range(n_rows):
        h = np.uint64(0x9E3779B97F4A7C15)
        for j in range(n_features):
            h = mix(h + np.uint64(codes[i, j]) + np.uint64(0x9E3779B97F4A7C15))
        if len(bits) > 0:
            h = mix(h + bits[i])
        hashes[i] = h
    return hashes


def prediction_bits(y_prob: npt.NDArray[np.float64] | None) -> npt.NDArray[np.uint64]:
    """The predictions' bit patterns, one for each distinct value; empty for None."""
    if y_prob is None:
        return np.empty(0, np.uint64)
    return np.ascontiguousarray(y_prob + 0.0).view(np.uint64)


def estimate_distinct(hashes: npt.NDArray[np.uint64]) -> int:
    """Estimated number of distinct hashes, from those in one of 64 equal parts of the hash space."""
    if len(hashes) < 100_000:
        return len(np.unique(hashes))
    return len(np.unique(hashes[(hashes >> _SAMPLE_SHIFT) == 0])) * 64


@kernel
def _same_row(codes: CodeMatrix, bits: npt.NDArray[np.uint64], a: int, b: int) -> bool:
    for j in range(codes.shape[1]):
        if codes[a, j] != codes[b, j]:
            return False
    return len(bits) == 0 or bits[a] == bits[b]


@kernel
def _number_groups(
    codes: CodeMatrix,
    bits: npt.NDArray[np.uint64],
    hashes: npt.NDArray[np.uint64],
    order: npt.NDArray[np.int64],
    group: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Number the groups of the rows in ``order``, which sorts their hashes, from 0; returns one row of each."""
    first = np.empty(len(order), np.int64)
    n_groups = 0
    run = 0
    for t in range(len(order)):
        i = order[t]
        if t == 0 or hashes[i] != hashes[order[t - 1]]:
            run = n_groups
        found = -1
        for g in range(run, n_groups):
            if _same_row(codes, bits, first[g], i):
                found = g
                break
        if found < 0:
            first[n_groups] = i
            found = n_groups
            n_groups += 1
        group[i] = found
    return first[:n_groups].copy()


def with_blocks(codes: CodeMatrix, block: npt.NDArray[np.int32] | None, n_blocks: int | None = None) -> CodeMatrix:
    """The codes with each row's block beside them, digit by digit, so that rows of two blocks are never equal.

    ``n_blocks``: of all rows, where these are some of them.
    """
    if block is None:
        return codes
    if block.ndim == 2:
        return with_blocks(with_blocks(codes, block[:, 0]), block[:, 1])
    base = int(np.iinfo(codes.dtype).max) + 1
    last = float(block.max(initial=0) if n_blocks is None else n_blocks - 1)
    n_digits = max(1, int(np.ceil(np.log(last + 1.5) / np.log(base))))
    digits = [(block // base**power % base).astype(codes.dtype) for power in range(n_digits)]
    return np.column_stack([codes, *digits])


def group_rows(
    codes: CodeMatrix, y_prob: npt.NDArray[np.float64] | None = None, hashes: npt.NDArray[np.uint64] | None = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Group number of each row and one row of each group, by codes and, if given, by the exact prediction.

    Groups are numbered by the hash of their content, so the numbering does not depend on the order of rows. Parts of
    the hash space are grouped side by side; how many threads do so changes nothing.
    """
    bits = prediction_bits(y_prob)
    if hashes is None:
        hashes = hash_rows(codes, bits)
    group = np.empty(len(hashes), np.int64)

    def group_part(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return _number_groups(codes, bits, hashes, rows[np.argsort(hashes[rows])], group)

    parts = _parts(hashes)
    with ThreadPoolExecutor(min(len(parts), os.cpu_count() or 1)) as pool:
        firsts = list(pool.map(group_part, parts))
    offset = 0
    for rows, first in zip(parts, firsts, strict=True):
        group[rows] += offset
        offset += len(first)
    return group, np.concatenate(firsts)


def _parts(hashes: npt.NDArray[np.uint64]) -> list[npt.NDArray[np.int64]]:
    """Rows by the leading bits of their hash, so that each part holds whole groups and parts follow in rising order."""
    if len(hashes) < _WORTH_PARTS:
        return [np.arange(len(hashes))]
    leading = (hashes >> _PART_SHIFT).astype(np.uint8)
    rows = np.argsort(leading, kind="stable")
    return np.split(rows, np.cumsum(np.bincount(leading, minlength=_N_PARTS))[:-1])


_GONE = 1e-9  # Relative weight below which a cell that was subtracted counts as empty


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
        for other in others:
            self._require_same_bins(other)
        everything = (self, *others)
        codes = np.concatenate([cells.codes for cells in everything])
        sums = _concatenate([cells.sums for cells in everything])
        return self._regrouped(codes, sums, _blocks_of(everything))

    def subtract(self, other: Self) -> Self:
        """Cells without the rows of ``other``, which were merged in before; more rows than a cell holds are refused."""
        self._require_same_bins(other)
        codes = np.concatenate([self.codes, other.codes])
        sums = _concatenate([self.sums, other.sums.scaled(-1.0)])
        left = self._regrouped(codes, sums, _blocks_of((self, other)))
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
        moved = replace(self.sums, logit=self.sums.logit + self.sums.count * step)
        return replace(self, sums=moved)

    def select(self, index: np.ndarray) -> Self:
        """The cells at ``index``, their numbers or a mask, in its order."""
        block = None if self.block is None else self.block[index]
        sums = self.sums.take(index)
        return type(self)(self.codes[index], sums, self.n_codes, self.fingerprint, self.one_score, block)

    def canonical(self) -> Self:
        """The same cells in the order of their content's hash, whatever order they came in."""
        return self._regrouped(self.codes, self.sums, self.block)

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


def _blocks_of(parts: Sequence[Cells]) -> npt.NDArray[np.int32] | None:
    numbers = [part.block for part in parts if part.block is not None]
    return np.concatenate(numbers) if numbers else None


def _concatenate(parts: list[Sums]) -> Sums:
    return Sums(*(np.concatenate(arrays) for arrays in zip(*(vars(part).values() for part in parts), strict=True)))


Level = Literal["auto", "cell", "score", "row"]

_WORTH_GROUPING = 0.5  # Group only if it leaves at most this share of the rows


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
    if level == "cell":
        group, first = group_rows(keys, hashes=hashes)
        sums = Sums.of_rows(y_prob, y_true, weight).grouped(group, len(first))
        return _cells_of(codes, sums, first, bins, block, one_score=False)
    group, first = group_rows(keys, y_prob)
    count = np.bincount(group, weight, len(first)).astype(np.float64)
    label = np.bincount(group, weight * y_true, len(first)).astype(np.float64)
    sums = sums_of_equal_scores(count, label, y_prob[first])
    return _cells_of(codes, sums, first, bins, block, one_score=True)


def _cells_of(
    codes: CodeMatrix,
    sums: Sums,
    first: npt.NDArray[np.int64],
    bins: FeatureBins,
    block: npt.NDArray[np.int32] | None,
    *,
    one_score: bool,
) -> Cells:
    """Cells that are described by one row of each."""
    own_block = None if block is None else block[first]
    codes = np.ascontiguousarray(codes[first])
    return Cells(codes, sums, bins.n_codes, bins.fingerprint, one_score=one_score, block=own_block)


def sums_of_equal_scores(count: FloatArray, label: FloatArray, y_prob: FloatArray) -> Sums:
    """Sums from the two that need adding up, so that the order of rows cannot touch the others."""
    unit = Sums.of_rows(y_prob, np.ones(len(y_prob)), np.ones(len(y_prob)))
    return Sums(count, label, count * y_prob, count * unit.pred2, label * y_prob, count * unit.logit)
