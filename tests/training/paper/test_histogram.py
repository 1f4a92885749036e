import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbct.model.tree import apply_tree
from mbct.training.cells import Cells, Sums
from mbct.training.paper import histogram
from mbct.training.paper.histogram import CellSource

N_CODES = (6, 9)


def _cells(*, rows: bool, n: int = 4000) -> Cells:
    """Rows of one label each, or cells that were joined from several."""
    rng = np.random.default_rng(2)
    codes = np.column_stack([rng.integers(0, k, n) for k in N_CODES]).astype(np.uint8)
    p, y, w = rng.random(n), rng.integers(0, 2, n).astype(float), rng.integers(1, 4, n).astype(float)
    sums = Sums.of_rows(p, y, w)
    if not rows:
        others = Sums.of_rows(rng.random(n), 1.0 - y, w)
        sums = Sums(*(mine + other for mine, other in zip(vars(sums).values(), vars(others).values(), strict=True)))
    return Cells(codes, sums, N_CODES, "bins", one_score=rows)


def _expected(cells: Cells, factor: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Sums of the chosen cells by feature and code, their predictions multiplied by ``factor``: pred·k, pred2·k² …"""
    s, k = cells.sums, factor
    moved = Sums(s.count, s.label, s.pred * k, s.pred2 * k * k, s.pred_label * k, s.logit)
    out = []
    for j, n_codes in enumerate(N_CODES):
        for code in range(n_codes):
            of_code = moved.take(chosen & (cells.codes[:, j] == code)).total()
            out.append([of_code.count, of_code.label, of_code.pred, of_code.pred2, of_code.pred_label])
    return np.array(out)


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments so short, and threads so soon, that few cells need many of both."""
    monkeypatch.setattr(histogram, "_SEGMENT", 64)
    monkeypatch.setattr(histogram, "_CELLS_A_CODE", 0)
    monkeypatch.setattr(histogram, "_WORTH_THREADS", 0)


@pytest.mark.usefixtures("in_pieces")
@pytest.mark.parametrize("rows", [True, False])
def test_sums_and_multiplications_are_those_of_plain_loops(rows: bool) -> None:
    cells = _cells(rows=rows)
    source = CellSource(cells, 2)
    everything, factor = np.ones(len(cells), bool), np.ones(len(cells))
    np.testing.assert_allclose(source.level_sums([0])[0], _expected(cells, factor, everything), rtol=1e-12)
    table = np.array([2, -1, 1, 1, 2, 2], np.int32)
    source.move(np.array([0, -1, -1], np.int32), np.zeros(3, np.int64), table)
    node = np.maximum(table, 0)[cells.codes[:, 0]]
    for v, found in enumerate(source.level_sums([0, 1, 2])):
        np.testing.assert_allclose(found, _expected(cells, factor, node == v), rtol=1e-12)
    multiplier = np.array([0.5, 2.0, 3.0])
    source.multiply(multiplier)
    np.testing.assert_allclose(source.level_sums([0])[0], _expected(cells, multiplier[node], everything), rtol=1e-12)


@pytest.mark.usefixtures("in_pieces")
@pytest.mark.parametrize("rows", [True, False])
def test_cells_that_were_sent_but_not_asked_for_are_multiplied_by_their_child(rows: bool) -> None:
    cells = _cells(rows=rows)
    source = CellSource(cells, 1)
    table = np.array([1, 2, -1, 1, 2, 1, 2, 1, -1], np.int32)
    source.move(np.array([1, -1, -1], np.int32), np.zeros(3, np.int64), table)
    multiplier = np.array([1.0, 4.0, 0.25])
    source.multiply(multiplier)
    factor = multiplier[np.maximum(table, 0)[cells.codes[:, 1]]]
    np.testing.assert_allclose(
        source.level_sums([0])[0], _expected(cells, factor, np.ones(len(cells), bool)), rtol=1e-12
    )


@pytest.mark.usefixtures("in_pieces")
def test_threads_do_not_reach_the_bits() -> None:
    answers = []
    for n_threads in (1, 2, 4):
        source = CellSource(_cells(rows=True), n_threads)
        table = np.array([1, 2, 1, 2, 1, 2], np.int32)
        source.move(np.array([0, -1, -1], np.int32), np.zeros(3, np.int64), table)
        answers.append(source.level_sums([1, 2]).tobytes())
    assert len(set(answers)) == 1


def _routing(rng: np.random.Generator, n_codes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The root split by feature 1, two of its children by others; the last child has the lowest codes."""
    child = rng.integers(-1, 3, n_codes[1])
    child[:5] = [2, -1, 0, 1, 2]
    deeper = [rng.permuted(np.r_[0, 1, rng.integers(-1, 2, k - 2)]) for k in (n_codes[0], n_codes[2])]
    parts = [np.where(child < 0, -1, child + 1)]
    parts += [np.where(part < 0, -1, part + first) for part, first in zip(deeper, (4, 6), strict=True)]
    start = np.zeros(8, np.int64)
    start[[1, 3]] = n_codes[1], n_codes[1] + n_codes[0]
    return np.array([1, 0, -1, 2, -1, -1, -1, -1], np.int32), start, np.concatenate(parts).astype(np.int32)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 3000))
def test_cells_are_where_the_tree_sends_them_in_the_order_in_which_they_came(seed: int, n: int) -> None:
    rng, n_codes = np.random.default_rng(seed), (5, 300, 7)
    codes = np.column_stack([rng.integers(0, k, n) for k in n_codes]).astype(np.uint16)
    source = CellSource(Cells(codes, Sums.of_rows(rng.random(n), np.ones(n), np.ones(n)), n_codes, "bins", True), 1)
    feature, start, table = _routing(rng, n_codes)
    for splits in (np.array([1, -1, -1, -1], np.int32), feature):
        source.move(splits, start[: len(splits)], table)
        node = apply_tree(codes, splits, start, table)
        for v in range(len(splits)):
            here = slice(source.begin[v], source.end[v])
            np.testing.assert_array_equal(source.held[here, -1], np.flatnonzero(node == v))
            np.testing.assert_array_equal(source.codes[source.cells_of(v), :3], codes[node == v])
    source.multiply(np.ones(8))
    np.testing.assert_array_equal(source.held[source.cells_of(0), -1], np.arange(n))


def test_many_codes_make_long_segments() -> None:
    """Each segment has a histogram of its own: those of a column of many values must not fill the memory."""
    n, n_codes = 400_000, (100_000,)
    codes = np.zeros((n, 1), np.uint32)
    ones = np.ones(n)
    source = CellSource(Cells(codes, Sums.of_rows(0.5 * ones, ones, ones), n_codes, "bins", one_score=True), 2)
    assert source.level_sums([0])[0, 0, 0] == n
    assert len(source.histograms) == 1
