"""Rows and blocks go into folds and halves.

Rows of one block, such as those of a day or of a person, share what is not among the features, so that held-out rows
are independent of the training rows only where they come from other blocks: a block is never split between folds. In
time, folds are contiguous stretches of blocks; groups are assigned at random. Cells without blocks are split at random,
as their rows would be, so that aggregated data train like rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from mbct.errors import DataError, ParameterError
from mbct.jit import kernel
from mbct.model.bins import CodeMatrix, code_offsets
from mbct.stats.random_stream import random_bits, split_amount
from mbct.stats.sums import Duplicates, find_duplicates, rate_by_score
from mbct.training.cells import Cells
from mbct.validation import FloatArray

BlockNumbers = npt.NDArray[np.int32]
BlockKind = Literal["time", "groups"]
BlockLength = Literal["day", "week", "hour"]
BlockSize = BlockLength | int
"""Length of a block of time, or a number of equal stretches."""


@dataclass(frozen=True)
class BlockOptions:
    """How blocks become folds.

    ``kind``: "time" numbers blocks in their order, "groups" in any. ``gap``: blocks next to a held-out stretch that its
    ensemble is not trained on. ``half_life``: number of blocks after which evidence counts half; None: one fold's.
    ``keep_all``: features that identify the time are used like the others.
    """

    kind: BlockKind = "time"
    gap: int = 0
    half_life: float | None = None
    keep_all: bool = False

    def __post_init__(self) -> None:
        if self.kind not in get_args(BlockKind):
            raise ParameterError(f"kind={self.kind!r} must be one of {', '.join(map(repr, get_args(BlockKind)))}")
        if self.gap < 0:
            raise ParameterError(f"gap={self.gap!r} must not be negative")
        if self.half_life is not None and not self.half_life > 0.0:
            raise ParameterError(f"half_life={self.half_life!r} must be above 0")
        if self.kind == "groups" and (self.gap or self.half_life is not None):
            raise ParameterError("gap and half_life are for blocks in time: groups have no order")


@dataclass(frozen=True)
class BlockColumns:
    """Columns or arrays that say which rows belong together, and how blocks of time become folds."""

    time: Any = None
    groups: Any = None
    block: BlockSize = "day"
    gap: int = 0
    half_life: float | None = None

    def __post_init__(self) -> None:
        is_number = isinstance(self.block, int | np.integer) and not isinstance(self.block, bool)
        if not (self.block in get_args(BlockLength) if isinstance(self.block, str) else is_number and self.block >= 2):
            raise ParameterError(f"block={self.block!r} must be 'day', 'week', 'hour' or a number of stretches from 2")
        if self.time is None and (self.gap or self.half_life is not None):
            raise ParameterError("gap and half_life are measured in blocks of time: pass time=… as well")

    @property
    def given(self) -> bool:
        """Whether rows belong to blocks at all."""
        return self.time is not None or self.groups is not None

    @property
    def options(self) -> BlockOptions:
        """How the blocks become folds; those of cells that were summed by day are in time."""
        kind: BlockKind = "groups" if self.time is None and self.groups is not None else "time"
        return BlockOptions(kind, int(self.gap), self.half_life)


@dataclass(frozen=True)
class RowBlocks:
    """Block of each row, and of each block its fold and the weight of its evidence; blocks are numbered from 0.

    ``in_order``: of time. ``gap``: see :class:`BlockOptions`.
    """

    number: BlockNumbers
    fold: npt.NDArray[np.uint8]
    weight: FloatArray
    in_order: bool = True
    gap: int = 0

    def __len__(self) -> int:
        return len(self.fold)

    def trained_on(self, held_out: int) -> npt.NDArray[np.bool_]:
        """Whether each row is one that the ensemble of fold ``held_out`` is trained on."""
        return training_blocks(self.fold, held_out, self.gap)[self.number]


def row_blocks(
    block: npt.NDArray[np.integer[Any]], weight: FloatArray, n_folds: int, seed: int, options: BlockOptions
) -> RowBlocks:
    """Rows by their block, given as any numbers; ``weight`` is that of each row."""
    values, number = np.unique(block, return_inverse=True)
    n_folds = n_folds_of(len(values), n_folds)
    fold = folds_of_blocks(np.bincount(number, weight).astype(np.float64), n_folds, seed, options.kind)
    evidence = block_weights(len(values), n_folds, options)
    return RowBlocks(number.astype(np.int32), fold, evidence, options.kind == "time", options.gap)


def n_folds_of(n_blocks: int, n_folds: int) -> int:
    """Number of folds that so many blocks allow, at most ``n_folds``."""
    if n_blocks < 2:
        raise DataError(f"{n_blocks} block of rows: at least two are needed, one to train on and one to hold out")
    return min(n_blocks, n_folds)


def folds_of_blocks(weight: FloatArray, n_folds: int, seed: int, kind: BlockKind) -> npt.NDArray[np.uint8]:
    """Fold of each block: stretches of about equal weight, of the blocks in their order or in a random one.

    Every fold has a block, as long as there are as many.

    >>> folds_of_blocks(np.array([5.0, 1.0, 1.0, 1.0, 1.0, 1.0]), 2, 0, "time").tolist()
    [0, 1, 1, 1, 1, 1]
    """
    n_blocks = len(weight)
    random_order = np.random.default_rng([seed, n_blocks]).permutation
    order = np.arange(n_blocks) if kind == "time" else random_order(n_blocks)
    before = np.cumsum(weight[order]) - weight[order]
    stretch = ((before + 0.5 * weight[order]) / weight.sum() * n_folds).astype(np.intp)
    # No stretch may be skipped, and enough blocks must be left for those that follow.
    position = np.arange(n_blocks)
    stretch = np.maximum(np.minimum(stretch, n_folds - 1), position - (n_blocks - n_folds))
    for i in range(n_blocks):
        stretch[i] = min(stretch[i], stretch[i - 1] + 1 if i else 0)
    fold = np.empty(n_blocks, dtype=np.uint8)
    fold[order] = stretch
    return fold


def training_blocks(fold: npt.NDArray[np.uint8], held_out: int, gap: int) -> npt.NDArray[np.bool_]:
    """Whether a fold's ensemble is trained on each block: not on its own, and not within ``gap`` of them."""
    own = fold == held_out
    if gap == 0:
        return np.asarray(~own)
    places = np.flatnonzero(own)
    place = np.arange(len(fold))
    return np.asarray((place < places[0] - gap) | (place > places[-1] + gap))


def block_weights(n_blocks: int, n_folds: int, options: BlockOptions) -> FloatArray:
    """Weight of each block's evidence: of blocks in time, recent ones count more."""
    if options.kind == "groups":
        return np.ones(n_blocks)
    half_life = n_blocks / n_folds if options.half_life is None else options.half_life
    return np.asarray(0.5 ** (np.arange(n_blocks)[::-1] / half_life))


@dataclass(frozen=True)
class CellParts:
    """BinnedRows of cells: the cell each comes from, its fold, its weight and its positives."""

    cell: npt.NDArray[np.int64]
    fold: npt.NDArray[np.uint8]
    count: FloatArray
    label: FloatArray


@kernel
def _split(
    count: FloatArray, label: FloatArray, n_folds: int, seed: np.uint64
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], FloatArray, FloatArray]:
    size = 0
    for i in range(len(count)):
        size += min(n_folds, int(np.ceil(label[i])) + int(np.ceil(count[i] - label[i])) + 2)
    cell = np.empty(size, np.int64)
    fold = np.empty(size, np.uint8)
    part_count = np.empty(size)
    part_label = np.empty(size)
    positives = np.empty(n_folds)
    negatives = np.empty(n_folds)
    n = 0
    for i in range(len(count)):
        split_amount(label[i], n_folds, seed, i, 0, positives)
        split_amount(count[i] - label[i], n_folds, seed, i, 1000, negatives)
        for f in range(n_folds):
            weight = positives[f] + negatives[f]
            if weight > 1e-9:
                cell[n] = i
                fold[n] = f
                part_count[n] = weight
                part_label[n] = positives[f]
                n += 1
    return cell[:n].copy(), fold[:n].copy(), part_count[:n].copy(), part_label[:n].copy()


@kernel
def _folds_of_cells(n_cells: int, n_folds: int, seed: np.uint64) -> npt.NDArray[np.uint8]:
    fold = np.empty(n_cells, np.uint8)
    for i in range(n_cells):
        fold[i] = random_bits(seed, i, 0) % np.uint64(n_folds)
    return fold


def split_into_folds(
    count: FloatArray, label: FloatArray, n_folds: int, seed: int, *, atomic: bool = False
) -> CellParts:
    """Split the rows of each cell at random into ``n_folds`` folds; ``atomic`` cells are one row each.

    A weight of k counts as k rows. The draw depends on the seed and the order of the cells alone: take cells in
    canonical order (level "score", or :meth:`Cells.canonical`) to be free of the order of rows.
    """
    start = np.random.SeedSequence([seed, n_folds]).generate_state(1, np.uint64)[0]
    if atomic:
        return CellParts(np.arange(len(count)), _folds_of_cells(len(count), n_folds, start), count, label)
    return CellParts(*_split(count, label, n_folds, start))


RowNumbers = npt.NDArray[np.int32]
NO_BLOCKS: BlockNumbers = np.empty(0, dtype=np.int32)


@dataclass(frozen=True)
class BinnedRows:
    """Codes, starting log-odds, weight, weighted positives and fold of rows, or of parts of cells.

    ``log_odds`` and ``label`` have a column for each class where there are many. ``usable`` numbers the features that
    trees may split by; ``atomic``: what has one position is one row, whatever its weight. ``blocks``: which rows belong
    together, where they are not independent.
    """

    codes: CodeMatrix
    log_odds: FloatArray
    weight: FloatArray
    label: FloatArray
    fold: npt.NDArray[np.uint8]
    offset: npt.NDArray[np.int64]
    ordered: npt.NDArray[np.bool_]
    usable: npt.NDArray[np.int64]
    atomic: bool = False
    blocks: RowBlocks | None = None

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return int(self.fold.max()) + 1

    @property
    def block_numbers(self) -> BlockNumbers:
        """Block of each row; empty where rows are independent."""
        return NO_BLOCKS if self.blocks is None else self.blocks.number

    def held_out_rows(self, fold: int) -> RowNumbers:
        """Rows that ``fold`` holds out and is evaluated on."""
        return np.flatnonzero(self.fold == fold).astype(np.int32)

    def train_rows(self, fold: int) -> RowNumbers:
        """Rows that ``fold`` is fitted on: those of all others, but for blocks of time next to its own (``gap``)."""
        if self.blocks is not None:
            return np.flatnonzero(self.blocks.trained_on(fold)).astype(np.int32)
        return np.flatnonzero(self.fold != fold).astype(np.int32)

    @property
    def all_rows(self) -> RowNumbers:
        """Every row."""
        return np.arange(len(self.weight), dtype=np.int32)

    @property
    def n_codes(self) -> list[int]:
        """Number of codes of each feature."""
        return [int(n) for n in np.diff(self.offset)]

    def loss(self, rows: RowNumbers, log_odds: FloatArray) -> float:
        """Summed log loss of some rows."""
        return summed_log_loss(rows, log_odds, self.weight, self.label)

    def held_out_loss(self, log_odds: Sequence[FloatArray]) -> float:
        """Mean log loss of all rows, each at the log-odds of the fold that holds it out."""
        total = sum(self.loss(self.held_out_rows(fold), z) for fold, z in enumerate(log_odds))
        return total / float(self.weight.sum())


def duplicates_in(cells: Cells) -> Duplicates:
    """Whether the weights of cells count rows, or copies of rows."""
    sums = cells.sums
    return find_duplicates(sums.count, sums.label, rate_by_score(sums.count, sums.label, sums.logit / sums.count))


def split_cells(
    cells: Cells,
    ordered: tuple[bool, ...],
    usable: Sequence[int],
    n_folds: int,
    seed: int,
    *,
    atomic: bool = False,
    block_options: BlockOptions | None = None,
) -> BinnedRows:
    """Split cells into folds: by their blocks where they have some, else row by row or ``atomic``.

    A cell moves at the mean log-odds of its rows, which is exact for row-level cells.
    """
    if cells.block is not None:
        blocks = row_blocks(cells.block, cells.sums.count, n_folds, seed, block_options or BlockOptions())
        parts = CellParts(np.arange(len(cells)), blocks.fold[blocks.number], cells.sums.count, cells.sums.label)
    else:
        blocks = None
        parts = split_into_folds(cells.sums.count, cells.sums.label, n_folds, seed, atomic=atomic)
    start = cells.sums.logit / cells.sums.count
    undivided = len(parts.cell) == len(cells)
    return BinnedRows(
        cells.codes if undivided else np.ascontiguousarray(cells.codes[parts.cell]),
        start if undivided else start[parts.cell],
        parts.count,
        parts.label,
        parts.fold,
        code_offsets(cells.n_codes),
        np.array(ordered, dtype=np.bool_),
        np.array(usable, dtype=np.int64),
        atomic,
        blocks,
    )


@kernel
def summed_log_loss(rows: RowNumbers, log_odds: FloatArray, weight: FloatArray, label: FloatArray) -> float:
    """Log loss of some rows."""
    total = 0.0
    for i in rows:
        z = log_odds[i]
        total += weight[i] * (max(z, 0.0) + np.log1p(np.exp(-abs(z)))) - label[i] * z
    return total
