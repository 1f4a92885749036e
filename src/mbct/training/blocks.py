"""Rows and blocks go into folds and halves.

Rows of one block, such as those of a day or of a person, share what is not among the features, so that held-out rows
are independent of the training rows only where they come from other blocks: a block is never split between folds. In
time, folds are contiguous stretches of blocks; groups are assigned at random. Cells without blocks are split at random,
as their rows would be, so that aggregated data train like rows.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from mbct.errors import DataError, ParameterError
from mbct.jit import kernel
from mbct.model.bins import CodeMatrix
from mbct.stats.random_stream import mix
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


_TAIL = 0.02425
_CENTRE_TOP = (
    -39.69683028665376,
    220.9460984245205,
    -275.9285104469687,
    138.3577518672690,
    -30.66479806614716,
    2.506628277459239,
)
_CENTRE_LOW = (-54.47609879822406, 161.5858368580409, -155.6989798598866, 66.80131188771972, -13.28068155288572, 1.0)
_TAIL_TOP = (
    -0.007784894002430293,
    -0.3223964580411365,
    -2.400758277161838,
    -2.549732539343734,
    4.374664141464968,
    2.938163982698783,
)
_TAIL_LOW = (0.007784695709041462, 0.3224671290700398, 2.445134137142996, 3.754408661907416, 1.0)


@dataclass(frozen=True)
class CellParts:
    """BinnedRows of cells: the cell each comes from, its fold, its weight and its positives."""

    cell: npt.NDArray[np.int64]
    fold: npt.NDArray[np.uint8]
    count: FloatArray
    label: FloatArray


@kernel
def random_bits(seed: np.uint64, i: int, stream: int) -> np.uint64:
    """64 random bits that depend on nothing but the seed, the position and the stream."""
    return mix(mix(seed + np.uint64(i) * np.uint64(0x9E3779B97F4A7C15)) + np.uint64(stream))


@kernel
def _popcount(bits: np.uint64) -> int:
    n = 0
    while bits != np.uint64(0):
        bits &= bits - np.uint64(1)
        n += 1
    return n


@kernel
def half_of(amount: float, seed: np.uint64, i: int, stream: int) -> float:
    """How much of ``amount`` units falls into the first of two random halves.

    Whole units are drawn one by one up to 62 (binomial), beyond that by the normal limit; what is left after the
    whole units goes with the first of them, so that a row of weight 1.5 is not evaluated on half of itself.
    """
    bits = random_bits(seed, i, stream)
    whole = int(amount + 1e-9)
    rest = max(amount - whole, 0.0)
    goes_with = np.uint64(0) if whole else np.uint64(63)
    taken = rest if (bits >> goes_with) & np.uint64(1) else 0.0
    if whole <= 62:
        return taken + _popcount(bits & ((np.uint64(1) << np.uint64(whole)) - np.uint64(1)))
    uniform = (float(bits >> np.uint64(12)) + 0.5) / 2.0**52
    draw = float(np.rint(0.5 * whole + 0.5 * np.sqrt(float(whole)) * _normal_quantile(uniform)))
    return taken + min(max(draw, 0.0), float(whole))


@kernel
def _polynomial(coefficients: tuple[float, ...], x: float) -> float:
    value = 0.0
    for coefficient in coefficients:
        value = value * x + coefficient
    return value


@kernel
def _normal_quantile(u: float) -> float:
    """Standard normal quantile by Acklam's rational approximation (relative error 1e-9)."""
    if u < _TAIL or u > 1.0 - _TAIL:
        q = np.sqrt(-2.0 * np.log(min(u, 1.0 - u)))
        tail = _polynomial(_TAIL_TOP, q) / _polynomial(_TAIL_LOW, q)
        return tail if u < 0.5 else -tail
    q = u - 0.5
    return q * _polynomial(_CENTRE_TOP, q * q) / _polynomial(_CENTRE_LOW, q * q)


@kernel
def _split_amount(amount: float, n_folds: int, seed: np.uint64, i: int, stream: int, out: FloatArray) -> None:
    """Units of ``amount`` spread over folds: one by one while few, else by halving normal limits (multinomial).

    What is left after the whole units goes with the first of them.
    """
    out[:] = 0.0
    whole = int(amount + 1e-9)
    rest = max(amount - whole, 0.0)
    if rest > 1e-9:
        goes_with = stream + 2 if whole else stream + 1
        out[int(random_bits(seed, i, goes_with) % np.uint64(n_folds))] += rest
    if whole <= 64:
        for unit in range(whole):
            out[int(random_bits(seed, i, stream + 2 + unit) % np.uint64(n_folds))] += 1.0
        return
    left = float(whole)
    for fold in range(n_folds - 1):
        share = 1.0 / (n_folds - fold)
        uniform = (float(random_bits(seed, i, stream + 2 + fold) >> np.uint64(12)) + 0.5) / 2.0**52
        spread = np.sqrt(left * share * (1.0 - share)) * _normal_quantile(uniform)
        draw = min(max(np.rint(left * share + spread), 0.0), left)
        out[fold] += draw
        left -= draw
    out[n_folds - 1] += left


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
        _split_amount(label[i], n_folds, seed, i, 0, positives)
        _split_amount(count[i] - label[i], n_folds, seed, i, 1000, negatives)
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
