"""Where the rows of one tree stop, without walking it.

Number the nodes where a row can stop. Every code of every feature gets a word with one bit a stop: set where the code
leaves that stop reachable. The bitwise AND of the words of a row's codes leaves exactly one bit, its stop. A tree with
more than 64 stops takes several words.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix
from mbct.model.tree import STOP, IntArray

WordArray = npt.NDArray[np.unsignedinteger[Any]]

WORD = 64
DE_BRUIJN = 0x0218A392CD3D5DBF
"""Multiplied by a single bit, the top six bits of the product are different for each of the 64 bits."""
HASH_SHIFT = 58
HASH_OF_BIT = np.array([((DE_BRUIJN << bit) & (2**WORD - 1)) >> HASH_SHIFT for bit in range(WORD)])


@kernel
def stops_of_tree(
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
def words_of_tree(
    feature: IntArray,
    table_start: npt.NDArray[np.int64],
    table: IntArray,
    n_codes: npt.NDArray[np.int64],
    first_row: npt.NDArray[np.int64],
    stops: IntArray,
) -> npt.NDArray[np.uint64]:
    """For every code, the bits of those of ``stops``, 64 at most, that a row with this code can still reach.

    Start from all of them; each inner node then takes away, code by code, those on its other branches.
    """
    own = np.zeros(len(feature), np.uint64)
    for bit in range(len(stops)):
        own[stops[bit]] = np.uint64(1) << np.uint64(bit)
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
def stops_of_rows(
    codes: CodeMatrix,
    rows: IntArray,
    feature: IntArray,
    table_start: npt.NDArray[np.int64],
    table: IntArray,
    offset: npt.NDArray[np.int64],
) -> IntArray:
    """Node where each of ``rows`` stops; ``offset`` numbers the first code of each feature.

    Unsigned indices spare the check for negative ones.
    """
    n_codes = offset[1:] - offset[:-1]
    stops = stops_of_tree(feature, table_start, table, n_codes)
    used = np.unique(feature[feature >= 0])
    column = used.astype(np.uint64)
    base = offset[used].astype(np.uint64)
    node_of_hash = np.zeros(WORD, np.int32)
    stopped = np.empty(len(rows), np.int32)
    for begin in range(0, len(stops), WORD):
        some = stops[begin : begin + WORD]
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
                stopped[t] = node_of_hash[(left * np.uint64(DE_BRUIJN)) >> np.uint64(HASH_SHIFT)]
    return stopped
