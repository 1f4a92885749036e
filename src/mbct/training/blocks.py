"""Blocks: rows that belong together, such as those of a day or of a person, are never split between folds.

Rows of one block share what is not among the features, so that held-out rows are independent of the training rows only
where they come from other blocks. In time, folds are contiguous stretches of blocks; groups are assigned at random.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from mbct.errors import DataError, ParameterError
from mbct.model.bins import CodeMatrix
from mbct.validation import FloatArray

BlockNumbers = npt.NDArray[np.int32]
BlockKind = Literal["time", "groups"]


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


def time_distances(
    codes: CodeMatrix, weight: FloatArray, fold: npt.NDArray[np.uint8], n_codes: tuple[int, ...]
) -> FloatArray:
    """Of each feature the mean total variation between its distribution in one stretch of time and in the others.

    1 means that its value gives the stretch away: the feature identifies the time.
    """
    n_folds = int(fold.max()) + 1
    distances = np.empty(len(n_codes))
    for j, size in enumerate(n_codes):
        cell = fold.astype(np.intp) * size + codes[:, j]
        inside = np.bincount(cell, weight, n_folds * size).reshape(n_folds, size)
        outside = inside.sum(axis=0) - inside
        share_inside = inside / inside.sum(axis=1, keepdims=True)
        share_outside = outside / outside.sum(axis=1, keepdims=True)
        distances[j] = 0.5 * np.abs(share_inside - share_outside).sum(axis=1).mean()
    return distances
