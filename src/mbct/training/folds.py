"""Rows and blocks go into folds and halves.

Rows of one block, such as those of a day or of a person, share what is not among the features, so that held-out rows
are independent of the training rows only where they come from other blocks: a block is never split between folds. In
time, folds are contiguous stretches of blocks; groups are assigned at random. With both, folds are stretches of time,
and a group that lasts over several of them is held out in one and left out of its training rows. Cells without blocks
are split at random, as their rows would be, so that aggregated data train like rows.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from mbct.errors import DataError, ParameterError
from mbct.jit import kernel
from mbct.stats.random_stream import random_bits, split_amount
from mbct.validation import FloatArray

BlockNumbers = npt.NDArray[np.int32]
"""Block of each row; where rows have a block of time and a group, a column of each."""
EvaluatedRows = slice | npt.NDArray[np.bool_]
DEFAULT_FOLDS = 5
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

    ``in_order``: of time. ``gap``: see :class:`BlockOptions`. ``group`` and ``home``: where rows have a group too, its
    number, and the one fold in which its rows are held out.
    """

    number: BlockNumbers
    fold: npt.NDArray[np.uint8]
    weight: FloatArray
    in_order: bool = True
    gap: int = 0
    group: BlockNumbers | None = None
    home: npt.NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return len(self.fold)

    @property
    def evaluated(self) -> EvaluatedRows:
        """Rows that some fold holds out: all, or those of each group in its home stretch."""
        return slice(None) if self.home is None else np.asarray(self.fold[self.number] == self.home)

    @property
    def n_evaluated(self) -> int:
        """Number of blocks with rows that some fold holds out, or of groups where these are fewer."""
        if self.group is None:
            return len(self)
        return min(len(np.unique(numbers[self.evaluated])) for numbers in (self.number, self.group))

    def held_out(self, fold: int) -> npt.NDArray[np.bool_]:
        """Whether each row is one that ``fold`` holds out."""
        own = self.fold[self.number] == fold
        return np.asarray(own if self.home is None else own & (self.home == fold))

    def trained_on(self, held_out: int) -> npt.NDArray[np.bool_]:
        """Whether each row is one that the ensemble of fold ``held_out`` is trained on."""
        others = training_blocks(self.fold, held_out, self.gap)[self.number]
        return np.asarray(others if self.home is None else others & (self.home != held_out))


def time_or_group(block: BlockNumbers) -> BlockNumbers:
    """The blocks that folds and standard errors go by: of time where rows have both, one column each."""
    return block if block.ndim == 1 else block[:, 0]


def row_blocks(block: BlockNumbers, weight: FloatArray, n_folds: int, seed: int, options: BlockOptions) -> RowBlocks:
    """Rows by their block, given as any numbers; ``weight`` is that of each row.

    A second column of ``block`` is the group of each row. A group that lasts over several stretches of time is held out
    in one of them, whose ensemble is trained on none of its rows.
    """
    number = np.unique(time_or_group(block), return_inverse=True)[1].astype(np.int32)
    found = replace(
        blocks_of_weight(np.bincount(number, weight).astype(np.float64), n_folds, seed, options), number=number
    )
    n_folds, fold = int(found.fold.max()) + 1, found.fold
    if block.ndim == 1:
        return found
    group = np.unique(block[:, 1], return_inverse=True)[1].astype(np.int32)
    found = replace(found, group=group, home=homes_of_groups(group, fold[number], weight, seed))
    if not all(np.any(found.trained_on(k)) for k in range(n_folds)):
        raise DataError(
            f"{int(group.max()) + 1:,} groups leave a stretch of time no rows of others to train on: pass time or "
            "groups alone"
        )
    return found


def blocks_of_weight(weight: FloatArray, n_folds: int, seed: int, options: BlockOptions) -> RowBlocks:
    """Folds and evidence of blocks, of which the weight is known, before any row is numbered."""
    n_folds = n_folds_of(len(weight), n_folds)
    fold = folds_of_blocks(weight, n_folds, seed, options.kind)
    if options.gap:
        _refuse_wide_gap(fold, options.gap)
    evidence = block_weights(len(weight), n_folds, options)
    return RowBlocks(np.empty(0, dtype=np.int32), fold, evidence, options.kind == "time", options.gap)


def homes_of_groups(
    group: npt.NDArray[np.integer[Any]], stretch: npt.NDArray[np.uint8], weight: FloatArray, seed: int
) -> npt.NDArray[np.uint8]:
    """Home of each row's group, these being numbered from 0: a stretch with rows of it, drawn in proportion to weight.

    The draws are spread evenly over the groups, so that each stretch is the home of some, even where groups are few.
    """
    n_groups, n_folds = int(group.max()) + 1, int(stretch.max()) + 1
    total = np.bincount(group.astype(np.int64) * n_folds + stretch, weight, n_groups * n_folds).reshape(
        n_groups, n_folds
    )
    reached = np.cumsum(total, axis=1)
    draw = (np.random.default_rng([seed, n_groups]).permutation(n_groups) + 0.5) / n_groups
    home = np.sum(reached <= (draw * reached[:, -1])[:, None], axis=1)
    return np.asarray(home[group], dtype=np.uint8)


def n_folds_of(n_blocks: int, n_folds: int) -> int:
    """Number of folds that so many blocks allow, at most ``n_folds``; one that was asked for must be possible."""
    if n_blocks < 2:
        raise DataError(f"{n_blocks} block of rows: at least two are needed, one to train on and one to hold out")
    if n_folds > n_blocks and n_folds != DEFAULT_FOLDS:
        raise DataError(
            f"n_folds={n_folds} is more than the {n_blocks:,} blocks of rows: take n_folds={n_blocks} or less"
        )
    return min(n_blocks, n_folds)


def _refuse_wide_gap(fold: npt.NDArray[np.uint8], gap: int) -> None:
    """Each fold must have a block beyond the gap to train on."""
    own = [np.flatnonzero(fold == k) for k in range(int(fold.max()) + 1)]
    largest = min(max(int(places[0]), len(fold) - 1 - int(places[-1])) for places in own) - 1
    if gap > largest:
        raise ParameterError(
            f"gap={gap} leaves a fold of the {len(fold):,} blocks of time nothing to train on: take gap={largest} or "
            "less"
        )


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
    """Parts of cells: the cell each comes from, its fold, its weight and its positives."""

    cell: npt.NDArray[np.int64]
    fold: npt.NDArray[np.uint8]
    count: FloatArray
    label: FloatArray


@kernel
def _split(
    count: FloatArray, label: FloatArray, n_folds: int, seed: np.uint64, first: int
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
        split_amount(label[i], n_folds, seed, first + i, 0, positives)
        split_amount(count[i] - label[i], n_folds, seed, first + i, 1000, negatives)
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
def _folds_of_cells(n_cells: int, n_folds: int, seed: np.uint64, first: int) -> npt.NDArray[np.uint8]:
    fold = np.empty(n_cells, np.uint8)
    for i in range(n_cells):
        fold[i] = random_bits(seed, first + i, 0) % np.uint64(n_folds)
    return fold


def split_into_folds(
    count: FloatArray, label: FloatArray, n_folds: int, seed: int, *, atomic: bool = False, first: int = 0
) -> CellParts:
    """Split the rows of each cell at random into ``n_folds`` folds; ``atomic`` cells are one row each.

    A weight of k counts as k rows. The draw depends on the seed and the order of the cells alone: take cells in
    canonical order (level "score", or :meth:`Cells.canonical`) to be free of the order of rows. ``first``:
    number of the first of these cells among all.
    """
    start = np.random.SeedSequence([seed, n_folds]).generate_state(1, np.uint64)[0]
    if atomic:
        return CellParts(np.arange(len(count)), _folds_of_cells(len(count), n_folds, start, first), count, label)
    return CellParts(*_split(count, label, n_folds, start, first))
