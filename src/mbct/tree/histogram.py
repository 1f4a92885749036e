"""Sums per node, feature and code: one pass over the cells for a whole level of the tree."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from mbct.binning.code_offsets import code_offsets
from mbct.cells.cells import Cells
from mbct.cells.group import CodeMatrix
from mbct.jit import kernel
from mbct.tree.model import STOP, IntArray
from mbct.validation import FloatArray

N_SUMS = 5
COUNT, LABEL, PRED, PRED2, PRED_LABEL = range(N_SUMS)


@kernel
def _add_level(
    codes: CodeMatrix,
    sums: FloatArray,
    factor: FloatArray,
    node: IntArray,
    slot_of_node: IntArray,
    first_feature: int,
    last_feature: int,
    offset: npt.NDArray[np.int64],
    out: FloatArray,
) -> None:
    """Add the cells of all open nodes to the histograms of some features.

    Unsigned indices spare the check for negative ones, which would cost as much as the sums themselves.
    """
    base = offset.astype(np.uint64)
    first, last = np.uint64(first_feature), np.uint64(last_feature)
    for i in range(np.uint64(len(codes))):
        open_slot = slot_of_node[np.uint64(node[i])]
        if open_slot < 0:
            continue
        slot = np.uint64(open_slot)
        f = factor[i]
        count = sums[i, 0]
        label = sums[i, 1]
        pred = sums[i, 2] * f
        pred2 = sums[i, 3] * f * f
        pred_label = sums[i, 4] * f
        for j in range(first, last):
            k = base[j] + np.uint64(codes[i, j])
            out[slot, k, 0] += count
            out[slot, k, 1] += label
            out[slot, k, 2] += pred
            out[slot, k, 3] += pred2
            out[slot, k, 4] += pred_label


@kernel
def _move(
    codes: CodeMatrix, node: IntArray, feature: IntArray, table_start: npt.NDArray[np.int64], table: IntArray
) -> None:
    """Send the cells of split nodes to their children; a cell without a child stays."""
    for i in range(len(codes)):
        split = feature[node[i]]
        if split >= 0:
            child = table[table_start[node[i]] + codes[i, split]]
            if child != STOP:
                node[i] = child


class CellSource:
    """Cells in memory as the grower sees them: where each cell stands and what its predictions were multiplied by."""

    def __init__(self, cells: Cells, n_threads: int):
        s = cells.sums
        self.codes = cells.codes
        self.n_codes = cells.n_codes
        self.offset = code_offsets(cells.n_codes)
        self.sums = np.column_stack([s.count, s.label, s.pred, s.pred2, s.pred_label])
        self.factor = np.ones(len(cells))
        self.node = np.zeros(len(cells), dtype=np.int32)
        self.n_threads = max(1, min(n_threads, len(cells.n_codes)))

    def level_sums(self, nodes: list[int]) -> FloatArray:
        """Five sums for each of ``nodes`` and each code of each feature, shape (nodes, codes, 5).

        Threads share out the features (the paper's parallel growth), so that every sum is added up in the same
        order however many there are.
        """
        slot = np.full(int(self.node.max()) + 1, -1, dtype=np.int32)
        slot[nodes] = np.arange(len(nodes), dtype=np.int32)
        out = np.zeros((len(nodes), int(self.offset[-1]), N_SUMS))
        shares = np.array_split(np.arange(len(self.n_codes)), self.n_threads)

        def add(share: npt.NDArray[np.int64]) -> None:
            first, last = int(share[0]), int(share[-1]) + 1
            _add_level(self.codes, self.sums, self.factor, self.node, slot, first, last, self.offset, out)

        if self.n_threads == 1:
            add(shares[0])
        else:
            with ThreadPoolExecutor(self.n_threads) as pool:
                list(pool.map(add, shares))
        return out

    def move(self, feature: IntArray, table_start: npt.NDArray[np.int64], table: IntArray) -> None:
        """Send cells of the nodes that were split on to their children."""
        _move(self.codes, self.node, feature, table_start, table)

    def multiply(self, multiplier: FloatArray) -> None:
        """End a tree: multiply each cell's predictions by its node's multiplier and go back to the root."""
        self.factor *= multiplier[self.node]
        self.node[:] = 0
