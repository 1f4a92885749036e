"""Cells in node order: every cell is where the tree sends it, and nothing about it has changed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mbct.training.paper.node_order as node_order
from mbct.training.paper.node_order import CellSegments, NodeOrder, Routing

N_CODES = (5, 300, 7)


def _ordered(rng: np.random.Generator, n: int, n_threads: int) -> tuple[NodeOrder, np.ndarray, np.ndarray]:
    codes = np.column_stack([rng.integers(0, k, n) for k in N_CODES]).astype(np.uint16)
    sums = rng.random((n, 2))
    order = NodeOrder(codes, 2, N_CODES, n_threads, numbered=True)
    order.sums[:] = sums
    return order, codes, sums


def _routing(rng: np.random.Generator) -> Routing:
    """The root split by feature 1, two of its children by others; the last child has the lowest codes."""
    child = rng.integers(-1, 3, N_CODES[1])
    child[:5] = [2, -1, 0, 1, 2]
    deeper = [rng.permuted(np.r_[0, 1, rng.integers(-1, 2, k - 2)]) for k in (N_CODES[0], N_CODES[2])]
    parts = [np.where(child < 0, -1, child + 1)]
    parts += [np.where(part < 0, -1, part + first) for part, first in zip(deeper, (4, 6), strict=True)]
    feature = np.array([1, 0, -1, 2, -1, -1, -1, -1], np.int32)
    start = np.zeros(8, np.int64)
    start[[1, 3]] = N_CODES[1], N_CODES[1] + N_CODES[0]
    return Routing(feature, start, np.concatenate(parts).astype(np.int32))


def _walk(codes: np.ndarray, routing: Routing, depth: int) -> np.ndarray:
    node = np.zeros(len(codes), int)
    for _ in range(depth):
        split = routing.feature[node]
        rows = np.arange(len(codes))
        child = routing.table[np.where(split < 0, 0, routing.table_start[node] + codes[rows, np.maximum(split, 0)])]
        node = np.where((split < 0) | (child < 0), node, child)
    return node


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 3000), n_threads=st.integers(1, 3))
def test_cells_are_where_the_tree_sends_them(seed: int, n: int, n_threads: int) -> None:
    rng = np.random.default_rng(seed)
    routing = _routing(rng)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_order, "_SEGMENT", 100)
        patch.setattr(node_order, "_CELLS_A_CODE", 0)
        patch.setattr(node_order, "_WORTH_THREADS", 0)
        order, codes, sums = _ordered(rng, n, n_threads)
        shallow = Routing(np.array([1, -1, -1, -1], np.int32), routing.table_start[:4], routing.table)
        order.settle(shallow)
        _same_cells(order, codes, sums, _walk(codes, routing, 1))
        order.settle(routing)
        _same_cells(order, codes, sums, _walk(codes, routing, 2))
        order.to_root()
        _same_cells(order, codes, sums, np.zeros(n, int))


def _same_cells(order: NodeOrder, codes: np.ndarray, sums: np.ndarray, node: np.ndarray) -> None:
    for v in range(len(order.begin)):
        places = order.positions(v)
        np.testing.assert_array_equal(order.held[places, -1], np.flatnonzero(node == v))
        np.testing.assert_array_equal(order.codes[places, : codes.shape[1]], codes[node == v])
        np.testing.assert_array_equal(order.sums[places], sums[node == v])
    np.testing.assert_array_equal(order.sums[order.positions()], sums)


def test_cells_of_a_node_keep_their_order() -> None:
    order, codes, _ = _ordered(np.random.default_rng(0), 5000, 1)
    table = (codes.max() + 1 - np.arange(N_CODES[1])).astype(np.int32)
    order.settle(Routing(np.array([1] + [-1] * 400, np.int32), np.zeros(401, np.int64), table))
    for begin, end in zip(order.begin, order.end, strict=True):
        assert np.all(np.diff(order.held[begin:end, -1].astype(int)) > 0)


def test_segments_cover_each_range_once() -> None:
    segments = CellSegments.of(np.array([3, 5, 9]), np.array([0, 250, 250]), np.array([250, 250, 300]), 100)
    assert segments.node.tolist() == [3, 3, 3, 5, 9]
    assert segments.begin.tolist() == [0, 100, 200, 250, 250]
    assert segments.end.tolist() == [100, 200, 250, 250, 300]


def test_every_segment_is_worked_on_once_whatever_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_order, "_WORTH_THREADS", 0)
    segments = CellSegments.of(np.zeros(1, int), np.zeros(1, int), np.array([1000]), 7)
    for n_threads in (1, 2, 5):
        seen: list[int] = []
        segments.in_shares(n_threads, lambda a, b, seen=seen: seen.extend(range(a, b)))
        assert sorted(seen) == list(range(len(segments)))
