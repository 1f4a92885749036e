"""Which bin of each tree a row falls into, without walking the trees.

Number the terminal nodes. Every code of every feature gets a word with one bit a terminal node: set where the code
leaves that node reachable. The bitwise AND of the words of a row's codes leaves exactly one bit, its node. A tree with
more than 64 terminal nodes takes several words. The words of all trees stand side by side, so a row costs one AND
a feature and tree: no branch depends on the data, which makes it many times faster than walking.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix, code_offsets
from mbct.model.tree import STOP, CalibrationTree, IntArray
from mbct.stats.logodds import EPSILON
from mbct.validation import FloatArray

WordArray = npt.NDArray[np.unsignedinteger[Any]]

WORD = 64
DE_BRUIJN = 0x0218A392CD3D5DBF
"""Multiplied by a single bit, the top six bits of the product are different for each of the 64 bits."""
HASH_SHIFT = 58
HASH_OF_BIT = np.array([((DE_BRUIJN << bit) & (2**WORD - 1)) >> HASH_SHIFT for bit in range(WORD)])
MOST_BYTES = 256 * 2**20
"""Above this size the words would not repay their memory."""
_ROWS_OF_TASK = 1 << 14  # Rows that a thread takes at once
_ROWS_AT_ONCE = 256
_GROUPS_AT_ONCE = 64  # Rows of a block meet the words of a block of trees while those lie in the cache


@kernel
def terminal_nodes_of_tree(
    feature: IntArray, table_start: npt.NDArray[np.int64], table: IntArray, n_codes: npt.NDArray[np.int64]
) -> IntArray:
    """Leaves, and inner nodes with a code that has no child."""
    found = np.empty(len(feature), np.int32)
    n_found = 0
    for node in range(len(feature)):
        is_terminal = feature[node] < 0
        if not is_terminal:
            for code in range(n_codes[feature[node]]):
                if table[table_start[node] + code] == STOP:
                    is_terminal = True
                    break
        if is_terminal:
            found[n_found] = node
            n_found += 1
    return found[:n_found].copy()


@kernel
def words_of_tree(
    feature: IntArray,
    table_start: npt.NDArray[np.int64],
    table: IntArray,
    n_codes: npt.NDArray[np.int64],
    first_row: npt.NDArray[np.int64],
    terminal_nodes: IntArray,
) -> npt.NDArray[np.uint64]:
    """For every code, the bits of those of ``terminal_nodes``, 64 at most, that a row with this code can still reach.

    Start from all of them; each inner node then takes away, code by code, those on its other branches.
    """
    own = np.zeros(len(feature), np.uint64)
    for bit in range(len(terminal_nodes)):
        own[terminal_nodes[bit]] = np.uint64(1) << np.uint64(bit)
    below = own.copy()
    for node in range(len(feature) - 1, -1, -1):
        if feature[node] >= 0:
            for code in range(n_codes[feature[node]]):
                child = table[table_start[node] + code]
                if child != STOP:
                    below[node] |= below[child]
    words = np.full(first_row[-1], below[0])
    for node in range(len(feature)):
        if feature[node] >= 0:
            first = first_row[feature[node]]
            for code in range(n_codes[feature[node]]):
                child = table[table_start[node] + code]
                reached = own[node] if child == STOP else below[child]
                words[first + code] &= ~(below[node] & ~reached)
    return words


@kernel
def terminal_nodes_of_rows(
    codes: CodeMatrix,
    rows: IntArray,
    feature: IntArray,
    table_start: npt.NDArray[np.int64],
    table: IntArray,
    offset: npt.NDArray[np.int64],
) -> IntArray:
    """Terminal node of each of ``rows``; ``offset`` numbers the first code of each feature.

    Unsigned indices spare the check for negative ones.
    """
    n_codes = offset[1:] - offset[:-1]
    terminal_nodes = terminal_nodes_of_tree(feature, table_start, table, n_codes)
    used = np.unique(feature[feature >= 0])
    column = used.astype(np.uint64)
    base = offset[used].astype(np.uint64)
    node_of_hash = np.zeros(WORD, np.int32)
    terminal_node = np.empty(len(rows), np.int32)
    for begin in range(0, len(terminal_nodes), WORD):
        some = terminal_nodes[begin : begin + WORD]
        words = words_of_tree(feature, table_start, table, n_codes, offset, some)
        everything = words[0] | ~words[0]
        for bit in range(len(some)):
            node_of_hash[HASH_OF_BIT[bit]] = some[bit]
        for t in range(len(rows)):
            i = np.uint64(rows[t])
            left = everything
            for u in range(len(column)):
                left &= words[base[u] + np.uint64(codes[i, column[u]])]
            if len(column) == 0:
                left = np.uint64(1)
            if left != 0:
                terminal_node[t] = node_of_hash[(left * np.uint64(DE_BRUIJN)) >> np.uint64(HASH_SHIFT)]
    return terminal_node


@dataclass(frozen=True, eq=False)
class LeafMasks:
    """``words[first_row[j] + code, group]``, and ``leaf_values[group, hash of the bit]``, of each terminal node."""

    words: WordArray
    first_row: npt.NDArray[np.int64]
    leaf_values: FloatArray
    product: bool

    def add_to(self, total: FloatArray, codes: CodeMatrix) -> None:
        """Multiply ("linear") or add ("odds") the leaf values of each row, in the order of walking."""
        _add_leaf_values(codes, self.first_row, self.words, self.leaf_values, self.product, total)


def masks_of_trees(
    trees: Sequence[CalibrationTree], codes_of: Sequence[int], *, product: bool, most_bytes: int = MOST_BYTES
) -> LeafMasks | None:
    """The masks of trees whose features have so many codes each; None where they would need too much memory."""
    n_codes = np.array(codes_of, dtype=np.int64)
    first_row = code_offsets(n_codes)
    terminal_nodes = [terminal_nodes_of_tree(tree.feature, tree.table_start, tree.table, n_codes) for tree in trees]
    n_groups = sum(-(-len(nodes) // WORD) for nodes in terminal_nodes)
    # Two types alone: each is compiled once, and a model swapped in should find its kernel ready.
    word_type = np.dtype(np.uint32 if max(map(len, terminal_nodes), default=0) <= 32 else np.uint64)
    if int(first_row[-1]) * n_groups * word_type.itemsize > most_bytes:
        return None
    words = np.empty((int(first_row[-1]), n_groups), word_type)
    leaf_values = np.zeros((n_groups, WORD))
    group = 0
    for tree, nodes in zip(trees, terminal_nodes, strict=True):
        for begin in range(0, len(nodes), WORD):
            some = nodes[begin : begin + WORD]
            words[:, group] = words_of_tree(tree.feature, tree.table_start, tree.table, n_codes, first_row, some)
            leaf_values[group, HASH_OF_BIT[: len(some)]] = tree.leaf_value[some]
            group += 1
    return LeafMasks(words, first_row[:-1].copy(), leaf_values, product)


def sum_trees(trees: Sequence[CalibrationTree], codes: CodeMatrix, codes_of: Sequence[int]) -> FloatArray:
    """Sum of the leaf values of coded rows over trees, added up in their order."""
    masks = masks_of_trees(trees, codes_of, product=False)
    total = np.zeros(len(codes))
    if masks is not None:
        parts = [slice(begin, begin + _ROWS_OF_TASK) for begin in range(0, len(codes), _ROWS_OF_TASK)]
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(lambda part: masks.add_to(total[part], codes[part]), parts))
        return total
    for tree in trees:
        total += tree.leaf_value[tree.apply(codes)]
    return total


@kernel
def _add_leaf_values(
    codes: CodeMatrix,
    first_row: npt.NDArray[np.int64],
    words: WordArray,
    leaf_values: FloatArray,
    product: bool,
    total: FloatArray,
) -> None:
    """Blocks of rows by blocks of groups; unsigned indices spare the check for negative ones."""
    n_rows, n_features = codes.shape
    n_groups = words.shape[1]
    reachable = np.empty(_GROUPS_AT_ONCE, words.dtype)
    for begin in range(0, n_rows, _ROWS_AT_ONCE):
        end = min(begin + _ROWS_AT_ONCE, n_rows)
        for first in range(0, n_groups, _GROUPS_AT_ONCE):
            width = min(_GROUPS_AT_ONCE, n_groups - first)
            for i in range(begin, end):
                _reach(codes, i, n_features, first_row, words, first, width, reachable)
                result = total[i]
                for g in range(width):
                    left = np.uint64(reachable[g])
                    if left != 0:
                        bit = (left * np.uint64(DE_BRUIJN)) >> np.uint64(HASH_SHIFT)
                        value = leaf_values[np.uint64(first + g), bit]
                        result = result * value if product else result + value
                total[i] = result


@kernel
def _reach(
    codes: CodeMatrix,
    i: int,
    n_features: int,
    first_row: npt.NDArray[np.int64],
    words: WordArray,
    first: int,
    width: int,
    reachable: WordArray,
) -> None:
    """The words of a row's codes joined by AND."""
    row = words[first_row[0] + codes[i, 0], first : first + width]
    for g in range(width):
        reachable[g] = row[g]
    for j in range(1, n_features):
        row = words[first_row[j] + codes[i, j], first : first + width]
        for g in range(width):
            reachable[g] &= row[g]


@kernel
def masked_total_of_row(
    rows: npt.NDArray[np.int64], total: float, words: WordArray, leaf_values: FloatArray, product: bool
) -> float:
    """``total`` moved by the trees, given the ``words`` rows of a row's codes: no array is made."""
    for g in range(words.shape[1]):
        reachable = words[rows[0], g]
        for j in range(1, len(rows)):
            reachable &= words[rows[j], g]
        if reachable != 0:
            bit = (np.uint64(reachable) * np.uint64(DE_BRUIJN)) >> np.uint64(HASH_SHIFT)
            total = total * leaf_values[g, bit] if product else total + leaf_values[g, bit]
    return total


@kernel
def moved(score: float, tree_total: float, product: bool) -> float:
    """One prediction moved by the total of its trees: clip(p·k, 0, 1) or σ(logit(p) + s)."""
    if product:
        return min(max(score * tree_total, 0.0), 1.0)
    held = min(max(score, EPSILON), 1.0 - EPSILON)
    log_odds = np.log(held) - np.log1p(-held) + tree_total
    small = np.exp(-abs(log_odds))
    return float((1.0 if log_odds >= 0.0 else small) / (1.0 + small))
