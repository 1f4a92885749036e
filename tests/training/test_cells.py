import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbct.errors import DataError
from mbct.model.bins import FeatureBins, NumberBins
from mbct.stats.random_stream import half_of
from mbct.training.cells import Cells, Sums, build_cells
from mbct.training.folds import split_into_folds
from mbct.training.grouping import group_rows, hash_rows

BINS = FeatureBins((NumberBins("p", (0.5,)), NumberBins("x", (0.0, 1.0))))


def rows(seed, n=60, weights=False):
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, 2, n), rng.integers(0, 3, n)]).astype(np.uint8)
    weight = rng.integers(1, 4, n).astype(float) if weights else None
    return codes, rng.integers(1, 8, n) / 8.0, rng.integers(0, 2, n).astype(float), weight


def cells_of(seed, level="cell", **options):
    return build_cells(*rows(seed, **options), BINS, level)


def as_dict(cells: Cells):
    keys = map(tuple, np.column_stack([cells.codes, np.zeros(len(cells))]).tolist())
    values = np.column_stack(list(vars(cells.sums).values()))
    return dict(zip(keys, values, strict=True))


def assert_same(a: Cells, b: Cells):
    left, right = as_dict(a), as_dict(b)
    assert left.keys() == right.keys()
    for key, sums in left.items():
        assert sums == pytest.approx(right[key], abs=1e-9)


seeds = st.integers(0, 10_000)


@settings(max_examples=30)
@given(seeds, seeds, seeds)
def test_merge_is_associative_and_commutative(a, b, c):
    x, y, z = cells_of(a), cells_of(b), cells_of(c)
    assert_same(x.merge(y).merge(z), x.merge(y.merge(z)))
    assert_same(x.merge(y), y.merge(x))
    assert_same(x.merge(y, z), z.merge(x, y))


@settings(max_examples=30)
@given(seeds, seeds)
def test_subtract_undoes_merge(a, b):
    x, y = cells_of(a), cells_of(b)
    assert_same(x.merge(y).subtract(y), x)


def test_subtracting_what_was_never_there_is_refused():
    with pytest.raises(DataError, match="only cells that were merged before can be subtracted"):
        cells_of(0, n=5).subtract(cells_of(1, n=60))


def test_cells_of_other_bins_are_refused():
    other = FeatureBins((NumberBins("p", (0.4,)), NumberBins("x", (0.0, 1.0))))
    foreign = build_cells(*rows(0), other, "cell")
    with pytest.raises(DataError, match=f"bins {other.fingerprint} cannot be joined with cells of bins"):
        cells_of(0).merge(foreign)


def test_levels_cannot_be_mixed():
    with pytest.raises(DataError, match="row-level cells cannot be joined"):
        cells_of(0).merge(cells_of(0, "score"))


def test_decay_scales_every_sum_and_refuses_nonsense():
    cells = cells_of(0)
    assert cells.decay(0.5).total.pred2 == pytest.approx(cells.total.pred2 / 2)
    with pytest.raises(DataError, match=r"factor 0 must be above 0"):
        cells.decay(0)


@pytest.mark.parametrize("level", ["cell", "score", "row", "auto"])
def test_every_level_keeps_the_totals(level):
    codes, p, y, w = rows(3, n=500, weights=True)
    total = build_cells(codes, p, y, w, BINS, level).total
    expected = Sums.of_rows(p, y, w).total()
    for name, value in vars(expected).items():
        assert getattr(total, name) == pytest.approx(value)


@pytest.mark.parametrize("level", ["cell", "score"])
def test_weights_are_copies_and_row_order_is_free(level):
    codes, p, y, w = rows(4, n=300, weights=True)
    weighted = build_cells(codes, p, y, w, BINS, level)
    copies = np.repeat(np.arange(len(p)), w.astype(int))
    copies = np.random.default_rng(0).permutation(copies)
    repeated = build_cells(codes[copies], p[copies], y[copies], None, BINS, level)
    assert np.array_equal(weighted.codes, repeated.codes)
    for name in vars(weighted.sums):
        assert getattr(weighted.sums, name) == pytest.approx(getattr(repeated.sums, name))


def test_large_data_are_grouped_in_parts_as_small_ones_are():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 40, (250_000, 3)).astype(np.uint8)
    group, first = group_rows(codes)
    distinct, inverse = np.unique(codes, axis=0, return_inverse=True)
    assert len(first) == len(distinct)
    assert np.array_equal(codes[first][group], codes)
    assert len(np.unique(inverse * len(first) + group)) == len(distinct)
    hashes = hash_rows(codes[first], np.empty(0, np.uint64))
    assert np.all(np.diff(hashes.astype(float)) >= 0)


def test_auto_groups_only_where_it_pays():
    codes, p, y, _ = rows(5, n=2000)
    assert not build_cells(codes, p, y, None, BINS, "auto").one_score
    rng = np.random.default_rng(0)
    wide = FeatureBins(tuple(NumberBins(f"x{j}", tuple(range(200))) for j in range(4)))
    spread = rng.integers(0, 200, (2000, 4)).astype(np.uint8)
    assert build_cells(spread, p, y, None, wide, "auto").one_score


def test_score_level_loses_nothing():
    codes, p, y, _ = rows(6, n=400)
    cells = build_cells(codes, p, y, None, BINS, "score")
    assert len(cells) < 400
    mean = cells.sums.pred / cells.sums.count
    assert cells.sums.pred2 == pytest.approx(cells.sums.count * mean**2)


@settings(max_examples=20)
@given(seeds, st.integers(2, 7))
def test_splitting_keeps_every_row_and_fills_the_folds(seed, n_folds):
    cells = cells_of(seed, n=400, weights=True)
    parts = split_into_folds(cells.sums.count, cells.sums.label, n_folds, seed)
    assert np.bincount(parts.cell, parts.count) == pytest.approx(cells.sums.count)
    assert np.bincount(parts.cell, parts.label) == pytest.approx(cells.sums.label)
    assert np.all(parts.label <= parts.count + 1e-9)
    share = np.bincount(parts.fold, parts.count) / parts.count.sum()
    assert share == pytest.approx(1 / n_folds, abs=0.12)


@pytest.mark.parametrize("amount", [1.0, 7.0, 62.0, 200.0])
def test_halves_are_binomial(amount):
    draws = np.array([half_of(amount, np.uint64(5), i, 0) for i in range(4000)])
    assert draws.mean() == pytest.approx(amount / 2, rel=0.05)
    assert draws.std() == pytest.approx(np.sqrt(amount) / 2, rel=0.05)
    assert np.all((draws >= 0) & (draws <= amount))
