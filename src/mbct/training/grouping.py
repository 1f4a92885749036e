"""Rows of equal codes, found by a 64-bit hash: one sort, one pass."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix
from mbct.stats.random_stream import mix

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
