"""Cells kept in the order of their nodes: the cells of a node lie side by side.

A histogram of one node fits into the processor's nearest cache, those of all nodes of a level do not. In node order
the cells of a node are summed while its histogram is at hand, which saves more than it costs to put the cells of a
split node into the order of its children.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix
from mbct.model.tree import STOP, IntArray
from mbct.validation import FloatArray

_SEGMENT = 1 << 17
"""Cells of one node that one thread takes at a time. Fixed, so that sums never depend on the number of threads."""
_CELLS_A_CODE = 16  # A segment has at least so many cells for each code, as each has a histogram of its own
_WORTH_THREADS = 100_000  # Cells from which on work is shared out
_WORD = 8  # Bytes: codes are moved by words

Positions = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Routing:
    """Where cells go: feature, table start and table (child of each code) of every node."""

    feature: IntArray
    table_start: Positions
    table: IntArray


@dataclass(frozen=True)
class CellSegments:
    """Runs of cells of one node: the node, first cell and end of each."""

    node: Positions
    begin: Positions
    end: Positions

    @classmethod
    def of(cls, nodes: Positions, begin: Positions, end: Positions, most: int) -> "CellSegments":
        """The ranges of ``nodes``, in pieces of at most ``most`` cells; a node without cells keeps an empty one."""
        pieces = np.maximum(-(-(end - begin) // most), 1)
        number = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        starts = np.repeat(begin, pieces) + number * most
        return cls(np.repeat(nodes, pieces), starts, np.minimum(starts + most, np.repeat(end, pieces)))

    def __len__(self) -> int:
        return len(self.node)

    def in_shares(self, n_threads: int, work: Callable[[int, int], None]) -> None:
        """Do ``work(first, last)`` on runs of segments with about as many cells each."""
        passed = np.cumsum(self.end - self.begin)
        if n_threads == 1 or len(passed) < 2 or passed[-1] < _WORTH_THREADS:
            work(0, len(self))
            return
        # Several shares a thread, as some are done sooner than others.
        wanted = passed[-1] * np.arange(1, 4 * n_threads) / (4 * n_threads)
        cuts = np.unique([0, *np.searchsorted(passed, wanted).tolist(), len(self)]).tolist()
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(work, cuts[:-1], cuts[1:]))


@kernel
def _find_children(
    nodes: Positions,
    feature: IntArray,
    table_start: Positions,
    table: IntArray,
    n_codes: Positions,
    n_children: Positions,
    first_child: Positions,
) -> None:
    """Number of children of some nodes, and the first of them; the others follow it."""
    for node in nodes:
        first, last = STOP, STOP
        for k in range(table_start[node], table_start[node] + n_codes[feature[node]]):
            child = table[k]
            if child != STOP:
                first = child if first == STOP else min(first, child)
                last = max(last, child)
        first_child[node] = first
        n_children[node] = last - first + 1


@kernel
def _count(
    codes: CodeMatrix,
    node: Positions,
    begin: Positions,
    end: Positions,
    start: Positions,
    first_child: Positions,
    feature: IntArray,
    table_start: Positions,
    table: IntArray,
    counts: Positions,
    first: int,
    last: int,
) -> None:
    """Cells of each segment by group, from ``start`` on: those that stay, then those of each child.

    Unsigned indices, here and below, spare the check for negative ones, which costs as much as the work itself.
    """
    for s in range(first, last):
        v, at = node[s], start[s]
        if first_child[v] < 0:
            counts[at] = end[s] - begin[s]
            continue
        j, base, to_group = np.uint64(feature[v]), np.uint64(table_start[v]), at + 1 - first_child[v]
        for i in range(np.uint64(begin[s]), np.uint64(end[s])):
            child = table[base + np.uint64(codes[i, j])]
            counts[np.uint64(at if child == STOP else to_group + child)] += 1


@kernel
def _places(
    node: Positions,
    begin: Positions,
    start: Positions,
    n_children: Positions,
    first_child: Positions,
    place: Positions,
    new_begin: Positions,
    new_end: Positions,
) -> None:
    """Turn counts into the first place of each group and segment, and give node and children their ranges."""
    s = 0
    while s < len(node):
        v, after = node[s], s
        while after < len(node) and node[after] == v:
            after += 1
        at = begin[s]
        for group in range(n_children[v] + 1):
            owner = v if group == 0 else first_child[v] + group - 1
            new_begin[owner] = at
            for t in range(s, after):
                count = place[start[t] + group]
                place[start[t] + group] = at
                at += count
            new_end[owner] = at
        s = after


@kernel
def _scatter(
    codes: CodeMatrix,
    held: Words,
    node: Positions,
    begin: Positions,
    end: Positions,
    start: Positions,
    first_child: Positions,
    feature: IntArray,
    table_start: Positions,
    table: IntArray,
    place: Positions,
    spare: Words,
    first: int,
    last: int,
) -> None:
    """Put each cell at the next place of its group."""
    n_words = np.uint64(held.shape[1])
    for s in range(first, last):
        v, at = node[s], start[s]
        if first_child[v] < 0:
            spare[begin[s] : end[s]] = held[begin[s] : end[s]]
            continue
        j, base, to_group = np.uint64(feature[v]), np.uint64(table_start[v]), at + 1 - first_child[v]
        for i in range(np.uint64(begin[s]), np.uint64(end[s])):
            child = table[base + np.uint64(codes[i, j])]
            group = np.uint64(at if child == STOP else to_group + child)
            to = np.uint64(place[group])
            place[group] += 1
            for k in range(n_words):
                spare[to, k] = held[i, k]


class NodeOrder:
    """Cells in node order, and the range of every node.

    A cell is a few words side by side: its codes, its sums and, if it is ``numbered``, which cell it was in the
    beginning. So a cell is moved as a whole.
    """

    def __init__(self, codes: CodeMatrix, n_sums: int, n_codes: tuple[int, ...], n_threads: int, *, numbered: bool):
        n, n_features = codes.shape
        self.n_codes = np.array(n_codes, np.int64)
        self.n_sums = n_sums
        self.n_threads = n_threads
        self.code_type = codes.dtype
        self.code_words = -(-n_features * codes.itemsize // _WORD)
        self.held = np.empty((n, self.code_words + n_sums + numbered), np.uint64)
        self.spare = np.empty_like(self.held)
        self.to_root()

        def fill(rows: slice) -> None:
            self.codes[rows, :n_features] = codes[rows]
            if numbered:
                self.held[rows, -1] = np.arange(rows.start, rows.stop)

        self.share_out(fill)

    def share_out(self, work: Callable[[slice], None]) -> None:
        """Do some work on all cells, piece by piece."""
        pieces = self.segments(np.zeros(1, np.int64))
        pieces.in_shares(self.n_threads, lambda a, b: work(slice(int(pieces.begin[a]), int(pieces.end[b - 1]))))

    @property
    def codes(self) -> CodeMatrix:
        """Codes of the cells in node order, and some columns without meaning behind them."""
        return self.held[:, : self.code_words].view(self.code_type)

    @property
    def sums(self) -> FloatArray:
        """Sums of the cells in node order."""
        return self.held[:, self.code_words : self.code_words + self.n_sums].view(np.float64)

    def to_root(self) -> None:
        """All cells at the root again, in whatever order they are."""
        self.begin, self.end = np.zeros(1, np.int64), np.full(1, len(self.held), np.int64)
        self.is_split = np.zeros(1, bool)

    def segments(self, nodes: Positions) -> CellSegments:
        """Where the cells of some nodes lie."""
        most = max(_SEGMENT, _CELLS_A_CODE * int(self.n_codes.sum()))
        return CellSegments.of(nodes, self.begin[nodes], self.end[nodes], most)

    def positions(self, node: int | None = None) -> Positions:
        """Places of a node's cells, or of all, in the order in which numbered cells came in the beginning."""
        begin, end = (0, len(self.held)) if node is None else (int(self.begin[node]), int(self.end[node]))
        return begin + np.argsort(self.held[begin:end, -1])

    def settle(self, routing: Routing) -> None:
        """Move cells of nodes that were split to their children; equal ones keep their order."""
        new_splits = routing.feature >= 0
        new_splits[: len(self.is_split)] &= ~self.is_split
        n_nodes = len(routing.feature)
        n_children, first_child = np.zeros(n_nodes, np.int64), np.full(n_nodes, -1, np.int64)
        routes = (routing.feature, routing.table_start, routing.table)
        _find_children(np.flatnonzero(new_splits), *routes, self.n_codes, n_children, first_child)
        segments = self.segments(np.flatnonzero(self.end > self.begin))
        n_groups = n_children[segments.node] + 1
        start, place = np.cumsum(n_groups) - n_groups, np.zeros(int(n_groups.sum()), np.int64)
        moves = (segments.node, segments.begin, segments.end, start, first_child, *routes)
        codes, held, spare = self.codes, self.held, self.spare
        segments.in_shares(self.n_threads, lambda a, b: _count(codes, *moves, place, a, b))
        begin, end = np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.int64)
        _places(segments.node, segments.begin, start, n_children, first_child, place, begin, end)
        segments.in_shares(self.n_threads, lambda a, b: _scatter(codes, held, *moves, place, spare, a, b))
        self.held, self.spare = spare, held
        self.begin, self.end, self.is_split = begin, end, routing.feature >= 0
