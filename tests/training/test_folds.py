import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbct.data.columns import encode, fit_bins, read_columns
from mbct.errors import DataError, ParameterError
from mbct.training.binned_rows import BinnedRows, split_cells
from mbct.training.binning import BinningOptions
from mbct.training.cells import build_cells
from mbct.training.evidence import held_out_gain, time_distances
from mbct.training.folds import BlockOptions, folds_of_blocks, row_blocks, training_blocks


@given(st.lists(st.floats(0.1, 100.0), min_size=2, max_size=60), st.integers(2, 7), st.integers(0, 5))
def test_folds_of_time_are_contiguous_and_none_is_empty(weight, n_folds, seed):
    n_folds = min(n_folds, len(weight))
    fold = folds_of_blocks(np.array(weight), n_folds, seed, "time")
    assert np.all(np.diff(fold.astype(int)) >= 0)
    assert set(fold) == set(range(n_folds))


def test_folds_of_time_have_about_equal_weight():
    weight = np.random.default_rng(0).uniform(0.5, 1.5, 100)
    fold = folds_of_blocks(weight, 5, 0, "time")
    assert np.bincount(fold, weight) == pytest.approx(weight.sum() / 5, rel=0.05)


def test_groups_are_assigned_at_random_but_the_same_for_the_same_seed():
    weight = np.ones(50)
    folds = [folds_of_blocks(weight, 5, seed, "groups").tolist() for seed in (0, 0, 1)]
    assert folds[0] == folds[1] != folds[2]
    assert np.bincount(folds[0]).tolist() == [10] * 5
    assert np.any(np.diff(folds[0]) < 0)


def test_a_gap_is_left_on_both_sides_of_a_stretch():
    fold = np.repeat(np.arange(3), 4).astype(np.uint8)
    assert np.flatnonzero(~training_blocks(fold, 1, 0)).tolist() == [4, 5, 6, 7]
    assert np.flatnonzero(~training_blocks(fold, 1, 2)).tolist() == [2, 3, 4, 5, 6, 7, 8, 9]
    assert np.flatnonzero(~training_blocks(fold, 2, 1)).tolist() == [7, 8, 9, 10, 11]


def test_rows_of_a_block_share_its_fold():
    block = np.array([7, 3, 7, 9, 3, 12])
    blocks = row_blocks(block, np.ones(6), 2, 0, BlockOptions())
    assert len(blocks) == 4
    assert blocks.number.tolist() == [1, 0, 1, 2, 0, 3]
    assert not np.any(blocks.trained_on(0) & (blocks.fold[blocks.number] == 0))


def lasting_and_short(seed=0, n_days=40, n_rows=30):
    """Blocks of time and groups: half the rows of 25 groups that last, half of groups that live for three days."""
    rng = np.random.default_rng(seed)
    day = np.repeat(np.arange(n_days), n_rows)
    short = 100 + day // 3
    return np.column_stack([day, np.where(rng.random(len(day)) < 0.5, rng.integers(0, 25, len(day)), short)])


def test_neither_a_block_of_time_nor_a_group_is_on_both_sides():
    block = lasting_and_short()
    found = row_blocks(block, np.ones(len(block)), 5, 0, BlockOptions(gap=1))
    alone = row_blocks(block[:, 0], np.ones(len(block)), 5, 0, BlockOptions(gap=1))
    assert np.array_equal(found.fold, alone.fold)
    assert np.array_equal(found.weight, alone.weight)
    held_out = np.zeros(len(block), dtype=int)
    for k in range(5):
        train, test = found.trained_on(k), found.held_out(k)
        for column in block.T:
            assert not set(column[train]) & set(column[test])
        assert not np.any(train & ~alone.trained_on(k))
        held_out += test
    assert held_out.max() == 1
    assert np.array_equal(held_out == 1, found.evaluated)
    within_one_stretch = [len(set(found.fold[found.number[block[:, 1] == group]])) == 1 for group in block[:, 1]]
    assert np.all(held_out[within_one_stretch] == 1)
    lasts = block[:, 1] < 100
    assert set(block[lasts & (held_out == 1), 1]) == set(range(25))
    assert np.mean(held_out[lasts]) == pytest.approx(0.2, abs=0.06)
    assert np.bincount(found.home[lasts & (held_out == 1)], minlength=5).min() > 0


def test_homes_do_not_depend_on_the_order_of_rows():
    block = lasting_and_short(1)
    order = np.random.default_rng(0).permutation(len(block))
    found, shuffled = (row_blocks(b, np.ones(len(b)), 5, 3, BlockOptions()) for b in (block, block[order]))
    assert np.array_equal(found.home[order], shuffled.home)
    assert not np.array_equal(found.home, row_blocks(block, np.ones(len(block)), 5, 4, BlockOptions()).home)


def test_groups_that_leave_nothing_to_train_on_are_refused():
    block = np.column_stack([np.repeat(np.arange(4), 5), np.zeros(20, dtype=int)])
    with pytest.raises(DataError, match="1 groups leave a stretch of time no rows of others to train on"):
        row_blocks(block, np.ones(20), 2, 0, BlockOptions())


@pytest.mark.parametrize(("gap", "largest"), [(24, 23), (40, 23)])
def test_a_gap_that_leaves_nothing_to_train_on_is_refused(gap, largest):
    def blocks(gap):
        return row_blocks(np.arange(60), np.ones(60), 5, 0, BlockOptions(gap=gap))

    with pytest.raises(
        ParameterError, match=f"gap={gap} leaves a fold of the 60 blocks .*: take gap={largest} or less"
    ):
        blocks(gap)
    assert all(np.any(blocks(largest).trained_on(k)) for k in range(5))


def test_recent_blocks_count_more_by_their_half_life():
    blocks = row_blocks(np.arange(11), np.ones(11), 2, 0, BlockOptions(half_life=5))
    assert blocks.weight[-1] == 1.0
    assert blocks.weight[5] == pytest.approx(0.5)
    assert blocks.weight[0] == pytest.approx(0.25)
    groups = row_blocks(np.arange(11), np.ones(11), 2, 0, BlockOptions("groups"))
    assert groups.weight.tolist() == [1.0] * 11


def test_more_folds_than_blocks_are_as_many_folds_as_blocks():
    blocks = row_blocks(np.array([0, 0, 1, 2]), np.ones(4), 5, 0, BlockOptions())
    assert sorted(blocks.fold) == [0, 1, 2]
    with pytest.raises(DataError, match="n_folds=4 is more than the 3 blocks of rows: take n_folds=3 or less"):
        row_blocks(np.array([0, 0, 1, 2]), np.ones(4), 4, 0, BlockOptions())


def test_one_block_is_refused():
    with pytest.raises(DataError, match="1 block of rows: at least two are needed"):
        row_blocks(np.zeros(9, dtype=int), np.ones(9), 5, 0, BlockOptions())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "space"}, "kind='space' must be one of 'time', 'groups'"),
        ({"gap": -1}, "gap=-1 must not be negative"),
        ({"half_life": 0.0}, r"half_life=0\.0 must be above 0"),
        ({"kind": "groups", "gap": 1}, "groups have no order"),
    ],
)
def test_senseless_options_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        BlockOptions(**options)


def test_a_feature_that_identifies_the_stretch_is_far_and_others_are_near():
    rng = np.random.default_rng(1)
    fold = np.repeat(np.arange(5), 400).astype(np.uint8)
    codes = np.column_stack([rng.integers(0, 8, 2000), fold, rng.integers(0, 7, 2000)]).astype(np.uint8)
    distance = time_distances(codes, np.ones(2000), fold, (8, 5, 7))
    assert distance[1] == pytest.approx(1.0)
    assert distance[0] < 0.1
    assert distance[2] < 0.1


def test_cells_count_row_by_row():
    rng = np.random.default_rng(1)
    n = 2_000
    frame = {"p": rng.choice([0.1, 0.3], n), "c": rng.choice(["a", "b"], n)}
    y = (rng.random(n) < frame["p"]).astype(float)
    columns = read_columns(frame)
    bins = fit_bins(columns, "p", ["c"], frame["p"], y, None, "auto", BinningOptions())
    codes = encode(columns, bins, frame["p"])
    gains = []
    for level in ("score", "cell"):
        cells = build_cells(codes, frame["p"], y, None, bins, level)
        rows = split_cells(cells, tuple(f.ordered for f in bins), (0, 1), 5, 0)
        expected = -np.sum(y * np.log(frame["p"]) + (1.0 - y) * np.log1p(-frame["p"]))
        assert rows.loss(rows.all_rows, rows.log_odds) == pytest.approx(expected, rel=1e-9)
        found = held_out_gain(rows, rows.log_odds, rows.log_odds + 0.1)
        gains.append((found.value, found.standard_error))
    assert gains[0] == pytest.approx(gains[1], rel=1e-9)


def test_every_row_is_evaluated_at_the_log_odds_of_the_fold_that_holds_it_out():
    rng = np.random.default_rng(2)
    fold = rng.integers(0, 3, 50).astype(np.uint8)
    label = (rng.random(50) < 0.4).astype(float)
    nothing = np.empty(0, dtype=np.int64)
    codes = np.zeros((50, 1), dtype=np.uint8)
    rows = BinnedRows(codes, np.zeros(50), np.ones(50), label, fold, np.array([0, 1]), nothing.astype(bool), nothing)
    log_odds = rng.normal(size=(3, 50))
    own = log_odds[fold, np.arange(50)]
    assert rows.held_out_loss(log_odds) == pytest.approx(np.mean(np.logaddexp(0.0, own) - label * own))
    for k in range(3):
        assert sorted([*rows.held_out_rows(k), *rows.train_rows(k)]) == rows.all_rows.tolist()
        assert set(fold[rows.held_out_rows(k)]) == {k}
