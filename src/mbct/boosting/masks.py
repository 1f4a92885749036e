"""Which bin of each tree a row falls into, without walking the trees.

Number the nodes where a row of a tree can stop. Every code of every feature gets a word with one bit a stop: set where
the code leaves that stop reachable. The bitwise AND of the words of a row's codes leaves exactly one bit, its stop. All
trees lie side by side, so a row costs one AND a feature and tree: no branch depends on the data, which makes it many
times faster than walking. A tree with more than 64 stops takes several words.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mbct.cells.group import CodeMatrix
from mbct.jit import kernel
from mbct.stats.logodds import EPSILON
from mbct.tree.model import STOP, CalibrationTree, IntArray
from mbct.validation import FloatArray

if TYPE_CHECKING:
    from mbct.boosting.model import CalibrationEnsemble

WordArray = npt.NDArray[np.unsignedinteger[Any]]

_WORD = 64
_DE_BRUIJN = 0x0218A392CD3D5DBF
"""Multiplied by a single bit, the top six bits of the product are different for each of the 64 bits."""
_HASH_SHIFT = 58
MOST_BYTES = 256 * 2**20
"""Above this size the words would not repay their memory."""
_ROWS_AT_ONCE = 256
_GROUPS_AT_ONCE = 64
"""Rows of a block meet the words of a block of trees while those lie in the cache."""


@dataclass(frozen=True, eq=False)
class LeafMasks:
    """``words[first_row[j] + code, group]``, and ``steps[group, hash of the bit]``, the step of each stop."""

    words: WordArray
    first_row: npt.NDArray[np.int64]
    steps: FloatArray
    product: bool

    def total_step(self, codes: CodeMatrix) -> FloatArray:
        """Product ("linear") or sum ("odds") of the steps of each row, in the order of the trees: that of walking."""
        total = np.empty(len(codes))
        _total_steps(codes, self.first_row, self.words, self.steps, self.product, total)
        return total


def compile_masks(model: "CalibrationEnsemble", most_bytes: int = MOST_BYTES) -> LeafMasks | None:
    """The masks of a model, or None where they would need more than ``most_bytes``."""
    n_codes = np.array(model.bins.n_codes, dtype=np.int64)
    first_row = np.concatenate([[0], np.cumsum(n_codes)]).astype(np.int64)
    stops = [_stops(tree.feature, tree.table_start, tree.table, n_codes) for tree in model.trees]
    n_groups = sum(-(-len(nodes) // _WORD) for nodes in stops)
    # Two types alone: each is compiled once, and a model swapped in should find its kernel ready.
    word_type = np.dtype(np.uint32 if max(map(len, stops), default=0) <= 32 else np.uint64)
    if int(first_row[-1]) * n_groups * word_type.itemsize > most_bytes:
        return None
    words = np.empty((int(first_row[-1]), n_groups), word_type)
    steps = np.zeros((n_groups, _WORD))
    group = 0
    for tree, nodes in zip(model.trees, stops, strict=True):
        for begin in range(0, len(nodes), _WORD):
            some = nodes[begin : begin + _WORD]
            words[:, group] = _words_of_tree(tree, n_codes, first_row, some)
            steps[group, _HASH_OF_BIT[: len(some)]] = tree.step[some]
            group += 1
    return LeafMasks(words, first_row[:-1].copy(), steps, model.pattern == "linear")


def _words_of_tree(
    tree: CalibrationTree, n_codes: npt.NDArray[np.int64], first_row: npt.NDArray[np.int64], stops: IntArray
) -> npt.NDArray[np.uint64]:
    """For every code, the bits of those of ``stops`` that a row with this code can still reach."""
    own = np.zeros(tree.n_nodes, np.uint64)
    own[stops] = np.uint64(1) << np.arange(len(stops), dtype=np.uint64)
    words = np.empty(int(first_row[-1]), np.uint64)
    _fill_words(tree.feature, tree.table_start, tree.table, n_codes, first_row, own, words)
    return words


@kernel
def _stops(
    feature: IntArray, table_start: npt.NDArray[np.int64], table: IntArray, n_codes: npt.NDArray[np.int64]
) -> IntArray:
    """Leaves, and inner nodes with a code that has no child."""
    found = np.empty(len(feature), np.int32)
    n_found = 0
    for node in range(len(feature)):
        stops = feature[node] < 0
        if not stops:
            for code in range(n_codes[feature[node]]):
                if table[table_start[node] + code] == STOP:
                    stops = True
                    break
        if stops:
            found[n_found] = node
            n_found += 1
    return found[:n_found].copy()


@kernel
def _fill_words(
    feature: IntArray,
    table_start: npt.NDArray[np.int64],
    table: IntArray,
    n_codes: npt.NDArray[np.int64],
    first_row: npt.NDArray[np.int64],
    own: npt.NDArray[np.uint64],
    words: npt.NDArray[np.uint64],
) -> None:
    """Start from every stop; each inner node then takes away, code by code, those on its other branches."""
    below = own.copy()
    for node in range(len(feature) - 1, -1, -1):
        if feature[node] >= 0:
            for code in range(n_codes[feature[node]]):
                child = table[table_start[node] + code]
                if child != STOP:
                    below[node] |= below[child]
    words[:] = below[0]
    for node in range(len(feature)):
        if feature[node] >= 0:
            first = first_row[feature[node]]
            for code in range(n_codes[feature[node]]):
                child = table[table_start[node] + code]
                reached = own[node] if child == STOP else below[child]
                words[first + code] &= ~(below[node] & ~reached)


_HASH_OF_BIT = np.array([((_DE_BRUIJN << bit) & (2**_WORD - 1)) >> _HASH_SHIFT for bit in range(_WORD)])


@kernel
def _total_steps(
    codes: CodeMatrix,
    first_row: npt.NDArray[np.int64],
    words: WordArray,
    steps: FloatArray,
    product: bool,
    total: FloatArray,
) -> None:
    """Blocks of rows by blocks of groups; unsigned indices spare the check for negative ones."""
    n_rows, n_features = codes.shape
    n_groups = words.shape[1]
    reachable = np.empty(_GROUPS_AT_ONCE, words.dtype)
    for begin in range(0, n_rows, _ROWS_AT_ONCE):
        end = min(begin + _ROWS_AT_ONCE, n_rows)
        total[begin:end] = 1.0 if product else 0.0
        for first in range(0, n_groups, _GROUPS_AT_ONCE):
            width = min(_GROUPS_AT_ONCE, n_groups - first)
            for i in range(begin, end):
                _reach(codes, i, n_features, first_row, words, first, width, reachable)
                result = total[i]
                for g in range(width):
                    left = np.uint64(reachable[g])
                    if left != 0:
                        bit = (left * np.uint64(_DE_BRUIJN)) >> np.uint64(_HASH_SHIFT)
                        step = steps[np.uint64(first + g), bit]
                        result = result * step if product else result + step
                total[i] = result


@kernel
def _reach(codes, i, n_features, first_row, words, first, width, reachable) -> None:  # type: ignore[no-untyped-def]
    """The words of a row's codes joined by AND."""
    row = words[first_row[0] + codes[i, 0], first : first + width]
    for g in range(width):
        reachable[g] = row[g]
    for j in range(1, n_features):
        row = words[first_row[j] + codes[i, j], first : first + width]
        for g in range(width):
            reachable[g] &= row[g]


@kernel
def calibrate_row(
    rows: npt.NDArray[np.int64], score: float, words: WordArray, steps: FloatArray, product: bool
) -> float:
    """Calibrated probability of one row, given the ``words`` rows of its codes: one call from Python, no array made."""
    total = 1.0 if product else 0.0
    for g in range(words.shape[1]):
        reachable = words[rows[0], g]
        for j in range(1, len(rows)):
            reachable &= words[rows[j], g]
        if reachable != 0:
            bit = (np.uint64(reachable) * np.uint64(_DE_BRUIJN)) >> np.uint64(_HASH_SHIFT)
            if product:
                total *= steps[g, bit]
            else:
                total += steps[g, bit]
    return moved(score, total, product)


@kernel
def moved(score: float, total_step: float, product: bool) -> float:
    """One prediction moved by its total step: clip(p·k, 0, 1) or σ(logit(p) + s)."""
    if product:
        return min(max(score * total_step, 0.0), 1.0)
    held = min(max(score, EPSILON), 1.0 - EPSILON)
    log_odds = np.log(held) - np.log1p(-held) + total_step
    small = np.exp(-abs(log_odds))
    return float((1.0 if log_odds >= 0.0 else small) / (1.0 + small))
