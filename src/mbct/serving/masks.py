"""Which bin of each tree a row falls into, without walking the trees.

Number the nodes where a row of a tree can stop. Every code of every feature gets a word with one bit a stop: set where
the code leaves that stop reachable. The bitwise AND of the words of a row's codes leaves exactly one bit, its stop. All
trees lie side by side, so a row costs one AND a feature and tree: no branch depends on the data, which makes it many
times faster than walking. A tree with more than 64 stops takes several words.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.binning.features import FeatureBins
from mbct.boosting.model import CalibrationEnsemble
from mbct.cells.group import CodeMatrix
from mbct.jit import kernel
from mbct.stats.logodds import EPSILON
from mbct.tree.model import STOP, CalibrationTree
from mbct.validation import FloatArray

WordArray = npt.NDArray[np.unsignedinteger[Any]]

_WORD = 64
_DE_BRUIJN = 0x0218A392CD3D5DBF
"""Multiplied by a single bit, the top six bits of the product are different for each of the 64 bits."""
_HASH_SHIFT = 58
MOST_BYTES = 256 * 2**20
"""Above this size the words would not repay their memory."""


@dataclass(frozen=True, eq=False)
class LeafMasks:
    """``words[first_row[j] + code, group]``, and ``steps[group, hash of the bit]``, the step of each stop."""

    words: WordArray
    first_row: npt.NDArray[np.int64]
    steps: FloatArray
    product: bool

    def total_step(self, codes: CodeMatrix) -> FloatArray:
        """What :meth:`~mbct.boosting.model.CalibrationEnsemble.total_step` returns, bit for bit."""
        total = np.empty(len(codes))
        _total_steps(codes, self.first_row, self.words, self.steps, self.product, total)
        return total


def compile_masks(model: CalibrationEnsemble, most_bytes: int = MOST_BYTES) -> LeafMasks | None:
    """The masks of a model, or None where they would need more than ``most_bytes``."""
    bins = model.bins
    first_row = np.concatenate([[0], np.cumsum(bins.n_codes)]).astype(np.int64)
    stops = [_stops(tree, bins) for tree in model.trees]
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
            words[:, group] = _words_of_tree(tree, bins, first_row, some)
            for bit, node in enumerate(some):
                steps[group, _hash_of_bit(bit)] = tree.step[node]
            group += 1
    return LeafMasks(words, first_row[:-1].copy(), steps, model.pattern == "linear")


def _stops(tree: CalibrationTree, bins: FeatureBins) -> list[int]:
    """Leaves, and inner nodes with a code that has no child."""
    return [
        node
        for node, feature in enumerate(tree.feature.tolist())
        if feature < 0 or bool((_table(tree, node, bins) == STOP).any())
    ]


def _table(tree: CalibrationTree, node: int, bins: FeatureBins) -> npt.NDArray[np.int32]:
    start = int(tree.table_start[node])
    return tree.table[start : start + bins[int(tree.feature[node])].n_codes]


def _words_of_tree(
    tree: CalibrationTree, bins: FeatureBins, first_row: npt.NDArray[np.int64], stops: list[int]
) -> npt.NDArray[np.uint64]:
    """For every code, the bits of those of ``stops`` that a row with this code can still reach."""
    own = np.zeros(tree.n_nodes, np.uint64)
    own[stops] = np.uint64(1) << np.arange(len(stops), dtype=np.uint64)
    below = own.copy()
    inner = np.flatnonzero(tree.feature >= 0).tolist()
    for node in reversed(inner):
        table = _table(tree, node, bins)
        below[node] |= np.bitwise_or.reduce(below[np.unique(table[table != STOP])], initial=np.uint64(0))
    words = np.full(int(first_row[-1]), below[0])
    for node in inner:
        feature, table = int(tree.feature[node]), _table(tree, node, bins)
        reached = np.where(table == STOP, own[node], below[table])
        words[first_row[feature] : first_row[feature + 1]] &= ~(below[node] & ~reached)
    return words


def _hash_of_bit(bit: int) -> int:
    return int(((_DE_BRUIJN << bit) & (2**_WORD - 1)) >> _HASH_SHIFT)


@kernel
def _total_steps(
    codes: CodeMatrix,
    first_row: npt.NDArray[np.int64],
    words: WordArray,
    steps: FloatArray,
    product: bool,
    total: FloatArray,
) -> None:
    n_rows, n_features = codes.shape
    n_groups = words.shape[1]
    reachable = np.empty(n_groups, words.dtype)
    for i in range(n_rows):
        row = first_row[0] + codes[i, 0]
        for g in range(n_groups):
            reachable[g] = words[row, g]
        for j in range(1, n_features):
            row = first_row[j] + codes[i, j]
            for g in range(n_groups):
                reachable[g] &= words[row, g]
        result = 1.0 if product else 0.0
        for g in range(n_groups):
            if reachable[g] != 0:
                bit = (np.uint64(reachable[g]) * np.uint64(_DE_BRUIJN)) >> np.uint64(_HASH_SHIFT)
                if product:
                    result *= steps[g, bit]
                else:
                    result += steps[g, bit]
        total[i] = result


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
