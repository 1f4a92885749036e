"""Sums per node, feature and code: one pass over the cells for a whole level of the tree."""

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix, code_offsets
from mbct.model.tree import STOP, IntArray
from mbct.training.cells import Cells
from mbct.training.paper.node_order import NodeOrder, Positions, Routing
from mbct.validation import FloatArray

N_SUMS = 5
COUNT, LABEL, PRED, PRED2, PRED_LABEL = range(N_SUMS)
_N_PACKED = 2
"""A cell of one prediction and one label is two numbers: the prediction, and its weight, below 0 for label 0."""


def in_node_order(cells: Cells, n_threads: int, *, numbered: bool) -> NodeOrder:
    """Cells with what is held of each: five sums, or two numbers that say as much of a row."""
    s = cells.sums
    is_whole = cells.one_score and bool(np.all((s.label == 0.0) | (s.label == s.count)) and np.all(s.count > 0.0))
    n_sums = _N_PACKED if is_whole else N_SUMS
    order = NodeOrder(cells.codes, n_sums, cells.n_codes, n_threads, numbered=numbered)

    def fill(rows: slice) -> None:
        held = order.sums[rows]
        if is_whole:
            np.divide(s.pred[rows], s.count[rows], out=held[:, 0])
            # The weight with the label's sign: 2·label − count.
            np.multiply(s.label[rows], 2.0, out=held[:, 1])
            held[:, 1] -= s.count[rows]
        else:
            for j, column in enumerate((s.count, s.label, s.pred, s.pred2, s.pred_label)):
                held[:, j] = column[rows]

    order.share_out(fill)
    return order


@kernel
def unpacked(held: FloatArray) -> tuple[float, float, float, float, float]:
    """The five sums of a cell."""
    if len(held) == N_SUMS:
        return held[0], held[1], held[2], held[3], held[4]
    p, weight = held[0], abs(held[1])
    label = weight if held[1] > 0.0 else 0.0
    return weight, label, weight * p, weight * p * p, label * p


@kernel
def unpacked_cells(held: FloatArray) -> FloatArray:
    """The five sums of each cell."""
    out = np.empty((len(held), N_SUMS))
    for i in range(len(held)):
        out[i] = unpacked(held[i])
    return out


@kernel
def _add_segments(
    codes: CodeMatrix,
    sums: FloatArray,
    begin: Positions,
    end: Positions,
    slot: Positions,
    offset: Positions,
    out: FloatArray,
    first: int,
    last: int,
) -> None:
    """Add up the cells of some segments, each in a histogram of its own; unsigned indices for speed."""
    base = offset.astype(np.uint64)
    n_features = np.uint64(len(offset) - 1)
    for s in range(first, last):
        histogram = out[slot[s]]
        histogram[:] = 0.0
        for i in range(np.uint64(begin[s]), np.uint64(end[s])):
            count, label, pred, pred2, pred_label = unpacked(sums[i])
            for j in range(n_features):
                k = base[j] + np.uint64(codes[i, j])
                histogram[k, 0] += count
                histogram[k, 1] += label
                histogram[k, 2] += pred
                histogram[k, 3] += pred2
                histogram[k, 4] += pred_label


@kernel
def _multiply(
    codes: CodeMatrix,
    sums: FloatArray,
    node: Positions,
    begin: Positions,
    end: Positions,
    feature: IntArray,
    table_start: Positions,
    table: IntArray,
    multiplier: FloatArray,
    first: int,
    last: int,
) -> None:
    """Multiply the predictions of each cell by the multiplier of the node that it stands at or is sent to."""
    for s in range(first, last):
        v = node[s]
        j, base = feature[v], table_start[v]
        for i in range(begin[s], end[s]):
            k = multiplier[v]
            if j >= 0 and table[base + codes[i, j]] != STOP:
                k = multiplier[table[base + codes[i, j]]]
            if sums.shape[1] == _N_PACKED:
                sums[i, 0] *= k
            else:
                sums[i, PRED] *= k
                sums[i, PRED2] *= k * k
                sums[i, PRED_LABEL] *= k


class CellSource:
    """Cells in memory as the grower sees them; ``numbered`` ones can be found in the order in which they came."""

    most_sums_at_once = 1_000_000
    """Few enough for the sums to be still in the cache when splits are evaluated by them."""

    def __init__(self, cells: Cells, n_threads: int, *, numbered: bool = False):
        self.n_codes = cells.n_codes
        self.offset = code_offsets(cells.n_codes)
        self.cells = in_node_order(cells, max(n_threads, 1), numbered=numbered)
        self.histograms = np.empty((0, int(self.offset[-1]), N_SUMS))
        self._back_to_root()

    def _back_to_root(self) -> None:
        self.routing = Routing(np.full(1, -1, np.int32), np.zeros(1, np.int64), np.empty(0, np.int32))
        self.is_settled = True
        self.answered: tuple[list[int], FloatArray] | None = None

    def level_sums(self, nodes: list[int]) -> FloatArray:
        """Five sums for each of ``nodes`` and each code of each feature, shape (nodes, codes, 5).

        Threads share out segments of cells. Each segment is summed by itself, and those of a node are added up in
        their order, so that the sums are the same however many threads there are. An answer holds until the next
        question; it is remembered while no cell has moved, as a tree asks twice for its root.
        """
        if self.answered is None or self.answered[0] != nodes:
            self._settle()
            self.answered = (list(nodes), self._level_sums(nodes))
        return self.answered[1]

    def _level_sums(self, nodes: list[int]) -> FloatArray:
        held = self.cells
        segments = held.segments(np.array(nodes, dtype=np.int64))
        is_first = np.r_[True, segments.node[1:] != segments.node[:-1]][: len(segments)]
        slot_of_node = np.cumsum(is_first) - 1
        # The first segment of each node has the node's place, further ones have places behind all nodes.
        slot = np.where(is_first, slot_of_node, len(nodes) - 1 + np.cumsum(~is_first))
        if len(self.histograms) < len(segments):
            self.histograms = np.empty((len(segments), *self.histograms.shape[1:]))
        out = self.histograms
        codes, sums = held.codes, held.sums
        ranges = (segments.begin, segments.end, slot, self.offset)
        segments.in_shares(held.n_threads, lambda a, b: _add_segments(codes, sums, *ranges, out, a, b))
        for further in np.flatnonzero(~is_first).tolist():
            out[slot_of_node[further]] += out[slot[further]]
        return out[: len(nodes)]

    def move(self, feature: IntArray, table_start: npt.NDArray[np.int64], table: IntArray) -> None:
        """Send cells of the nodes that were split on to their children, as soon as anyone asks for them."""
        self.routing, self.is_settled, self.answered = Routing(feature, table_start, table), False, None

    def _settle(self) -> None:
        if not self.is_settled:
            self.cells.settle(self.routing)
            self.is_settled = True

    def multiply(self, multiplier: FloatArray) -> None:
        """End a tree: multiply each cell's predictions by its node's multiplier and go back to the root."""
        held, to = self.cells, self.routing
        segments = held.segments(np.flatnonzero(held.end > held.begin))
        codes, sums = held.codes, held.sums
        where = (segments.node, segments.begin, segments.end, to.feature, to.table_start, to.table)
        segments.in_shares(held.n_threads, lambda a, b: _multiply(codes, sums, *where, multiplier, a, b))
        held.to_root()
        self._back_to_root()
