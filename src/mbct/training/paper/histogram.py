"""Sums per node, feature and code of cells in memory: one pass over the cells for a whole level of the tree.

The cells of a node lie side by side, so that they are summed while the node's histogram is in the cache.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix, code_offsets
from mbct.model.tree import STOP, IntArray
from mbct.training.cells import Cells
from mbct.validation import FloatArray

N_SUMS = 5
COUNT, LABEL, PRED, PRED2, PRED_LABEL = range(N_SUMS)
_N_PACKED = 2
"""A cell of one prediction and one label is two numbers: the prediction, and its weight, below 0 for label 0."""
_SEGMENT = 1 << 17
"""Cells of one node that are summed at a time. Fixed, so that sums never depend on the number of threads."""
_CELLS_A_CODE = 16  # A segment has at least so many cells for each code, as each has a histogram of its own
_WORD = 8  # Bytes: cells are moved by words
_WORTH_THREADS = 100_000  # Cells from which on work is shared out

Positions = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


@kernel
def _unpacked(held: FloatArray) -> tuple[float, float, float, float, float]:
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
        out[i] = _unpacked(held[i])
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
            count, label, pred, pred2, pred_label = _unpacked(sums[i])
            for j in range(n_features):
                k = base[j] + np.uint64(codes[i, j])
                histogram[k, 0] += count
                histogram[k, 1] += label
                histogram[k, 2] += pred
                histogram[k, 3] += pred2
                histogram[k, 4] += pred_label


@kernel
def _find_places(
    codes: CodeMatrix,
    place: Positions,
    begin: Positions,
    end: Positions,
    nodes: Positions,
    feature: IntArray,
    table_start: Positions,
    table: IntArray,
    n_codes: Positions,
) -> None:
    """Where each cell of the split nodes goes, into the order of their children, which get their ranges."""
    for v in nodes:
        child_of = table[table_start[v] : table_start[v] + n_codes[feature[v]]]
        last = child_of.max()
        first = last
        for child in child_of:
            if child != STOP:
                first = min(first, child)
        next_of = np.zeros(last - first + 3, np.int64)
        j = np.uint64(feature[v])
        for i in range(np.uint64(begin[v]), np.uint64(end[v])):
            child = child_of[np.uint64(codes[i, j])]
            next_of[1 if child == STOP else child - first + 2] += 1
        next_of[0] = begin[v]
        for group in range(1, len(next_of)):
            next_of[group] += next_of[group - 1]
        for child in range(first, last + 1):
            begin[child], end[child] = next_of[child - first + 1], next_of[child - first + 2]
        for i in range(np.uint64(begin[v]), np.uint64(end[v])):
            child = child_of[np.uint64(codes[i, j])]
            group = 0 if child == STOP else child - first + 1
            place[i] = next_of[group]
            next_of[group] += 1
        end[v] = begin[first]


@kernel
def _put(held: Words, place: Positions, out: Words) -> None:
    """Each cell at its place."""
    for i in range(np.uint64(len(held))):
        to = np.uint64(place[i])
        for k in range(np.uint64(held.shape[1])):
            out[to, k] = held[i, k]


class CellSource:
    """Cells in memory as the grower sees them; a cell is a few words side by side: codes, sums and its number."""

    most_sums_at_once = 1_000_000
    """Few enough for the sums to be still in the cache when splits are evaluated by them."""

    def __init__(self, cells: Cells, n_threads: int):
        n, n_features = cells.codes.shape
        s = cells.sums
        self.n_codes = cells.n_codes
        self.offset = code_offsets(cells.n_codes)
        self.n_threads = max(n_threads, 1)
        self.code_type = cells.codes.dtype
        is_whole = cells.one_score and bool(np.all((s.label == 0.0) | (s.label == s.count)) and np.all(s.count > 0.0))
        self.n_sums = _N_PACKED if is_whole else N_SUMS
        self.held = np.empty((n, -(-n_features * cells.codes.itemsize // _WORD) + self.n_sums + 1), np.uint64)
        self.spare = np.empty_like(self.held)
        self.codes[:, :n_features] = cells.codes
        packed = (s.pred / s.count, 2.0 * s.label - s.count) if is_whole else None
        for j, column in enumerate(packed or (s.count, s.label, s.pred, s.pred2, s.pred_label)):
            self.sums[:, j] = column
        self.held[:, -1] = np.arange(n)
        self.histograms = np.empty((0, int(self.offset[-1]), N_SUMS))
        self._back_to_root()

    @property
    def codes(self) -> CodeMatrix:
        """Codes of the cells in node order, and some columns without meaning behind them."""
        return self.held[:, : -self.n_sums - 1].view(self.code_type)

    @property
    def sums(self) -> FloatArray:
        """What is held of the sums of the cells in node order, see :func:`unpacked_cells`."""
        return self.held[:, -self.n_sums - 1 : -1].view(np.float64)

    def _back_to_root(self) -> None:
        self.begin, self.end = np.zeros(1, np.int64), np.full(1, len(self.held), np.int64)
        self.is_split = np.zeros(1, bool)
        self.answered: tuple[list[int], FloatArray] | None = None

    def level_sums(self, nodes: list[int]) -> FloatArray:
        """Five sums for each of ``nodes`` and each code of each feature, shape (nodes, codes, 5).

        Threads share out segments of cells. Each segment is summed by itself, and those of a node are added up in
        their order, so that the sums are the same however many threads there are. An answer holds until the next
        question; it is remembered while no cell has moved, as a tree asks twice for its root.
        """
        if self.answered is None or self.answered[0] != nodes:
            self.answered = (list(nodes), self._level_sums(np.array(nodes, dtype=np.int64)))
        return self.answered[1]

    def _level_sums(self, nodes: Positions) -> FloatArray:
        most = max(_SEGMENT, _CELLS_A_CODE * int(self.offset[-1]))
        n_pieces = np.maximum(-(-(self.end[nodes] - self.begin[nodes]) // most), 1)
        owner = np.repeat(np.arange(len(nodes)), n_pieces)
        piece = np.arange(len(owner)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
        begin = self.begin[nodes][owner] + piece * most
        end = np.minimum(begin + most, self.end[nodes][owner])
        # The first piece of each node has the node's place, further ones have places behind all nodes.
        slot = np.where(piece == 0, owner, len(nodes) - 1 + np.cumsum(piece > 0))
        if len(self.histograms) < len(owner):
            self.histograms = np.empty((len(owner), *self.histograms.shape[1:]))
        out, arrays = self.histograms, (self.codes, self.sums, begin, end, slot, self.offset)
        if self.n_threads == 1 or (end - begin).sum() < _WORTH_THREADS:
            _add_segments(*arrays, out, 0, len(owner))
        else:
            # Several shares a thread, as some are done sooner than others.
            cuts = np.linspace(0, len(owner), 4 * self.n_threads + 1).astype(int).tolist()
            with ThreadPoolExecutor(self.n_threads) as pool:
                list(pool.map(lambda a, b: _add_segments(*arrays, out, a, b), cuts[:-1], cuts[1:]))
        for further in np.flatnonzero(piece).tolist():
            out[owner[further]] += out[slot[further]]
        return out[: len(nodes)]

    def cells_of(self, node: int) -> Positions:
        """Where a node's cells lie, in the order in which they came."""
        begin, end = self.begin[node], self.end[node]
        return np.asarray(begin + np.argsort(self.held[begin:end, -1]))

    def move(self, feature: IntArray, table_start: npt.NDArray[np.int64], table: IntArray) -> None:
        """Send cells of the nodes that were split on to their children."""
        n_before, n_new = len(self.begin), len(feature) - len(self.begin)
        split = np.flatnonzero((feature[:n_before] >= 0) & ~self.is_split)
        self.begin, self.end = (np.append(ends, np.zeros(n_new, np.int64)) for ends in (self.begin, self.end))
        place = np.arange(len(self.held))
        _find_places(self.codes, place, self.begin, self.end, split, feature, table_start, table, np.diff(self.offset))
        _put(self.held, place, self.spare)
        self.held, self.spare, self.is_split, self.answered = self.spare, self.held, feature >= 0, None

    def multiply(self, multiplier: FloatArray) -> None:
        """End a tree: multiply each cell's predictions by its node's multiplier and go back to the root."""
        size = self.end - self.begin
        nodes = np.argsort(self.begin + (size == 0) * len(self.held), kind="stable")
        k = np.repeat(multiplier[nodes], size[nodes])
        predictions = ((0, k),) if self.n_sums == _N_PACKED else ((PRED, k), (PRED2, k * k), (PRED_LABEL, k))
        for column, factor in predictions:
            self.sums[:, column] *= factor
        self._back_to_root()
