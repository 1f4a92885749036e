import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from mbct.calibrators import folds as joined_rows
from mbct.calibrators.folds import JoinedRows, cross_validation_folds, row_keys, sparse_row_keys, stratified_folds
from mbct.data.columns import read_columns
from mbct.errors import DataError, ParameterError


def rows(n=500, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"x": rng.integers(0, 40, n) / 8, "site": rng.choice(["a", "b", "ü"], n)})


def test_equal_rows_have_equal_keys_and_others_do_not():
    frame = rows()
    keys = row_keys(read_columns(frame), 0)
    assert len(np.unique(keys)) == len(frame.drop_duplicates())
    assert pd.Series(keys).groupby([frame["x"], frame["site"]]).nunique().max() == 1


def test_keys_depend_on_the_seed_the_column_and_nothing_else():
    frame = rows()
    keys = row_keys(read_columns(frame), 0)
    assert np.mean(row_keys(read_columns(frame), 1) == keys) < 0.01
    np.testing.assert_array_equal(row_keys(read_columns(pl.DataFrame(frame.to_dict("list"))), 0), keys)
    swapped = row_keys(read_columns(np.array([[1.0, 2.0], [2.0, 1.0]])), 0)
    assert swapped[0] != swapped[1]


def test_zeros_and_missing_values_of_either_kind_are_one():
    keys = row_keys(read_columns(np.array([[0.0], [-0.0], [np.nan], [-np.nan]])), 0)
    assert keys[0] == keys[1] != keys[2]
    assert keys[2] == keys[3]


def test_keys_of_text_are_the_same_in_every_run():
    assert row_keys(read_columns({"site": np.array(["a"], dtype=object)}), 0).tolist() == [6611847748291414786]


def test_sparse_rows_have_keys_of_their_content():
    dense = np.random.default_rng(0).integers(0, 2, (200, 5)).astype(float)
    keys = sparse_row_keys(sparse.csr_matrix(dense), 0)
    assert len(np.unique(keys)) == len(np.unique(dense, axis=0))
    np.testing.assert_array_equal(sparse_row_keys(sparse.coo_array(dense), 0), keys)


def test_folds_are_stratified_and_even():
    rng = np.random.default_rng(0)
    keys, label = rng.integers(0, 2**63, 1000).astype(np.uint64), rng.uniform(size=1000) < 0.1
    fold = stratified_folds(keys, label, 5)
    for value in (False, True):
        sizes = np.bincount(fold[label == value])
        assert sizes.max() - sizes.min() <= 1
    assert np.ptp(np.bincount(fold)) <= 1


def test_folds_follow_rows_through_a_shuffle():
    rng = np.random.default_rng(0)
    keys, label = rng.integers(0, 300, 1000).astype(np.uint64), rng.integers(0, 3, 1000)
    order = rng.permutation(1000)
    np.testing.assert_array_equal(
        stratified_folds(keys[order], label[order], 4), stratified_folds(keys, label, 4)[order]
    )


def test_a_class_with_one_distinct_row_is_named():
    keys, label = np.array([1, 2, 3, 3], dtype=np.uint64), np.array([0, 0, 1, 1])
    with pytest.raises(DataError, match=r"class .*1.* has only one sample \(one distinct row\)"):
        cross_validation_folds(keys, label, 2)
    with pytest.raises(ParameterError, match="cv must be a number of at least 2, got 1"):
        cross_validation_folds(keys, label, 1)


def counted(weight, seed=0):
    """Four kinds of rows, each of either label."""
    matrix = np.array([[0.0, np.nan], [1.0, 2.0], [1.0, 3.0], [-1.0, 2.0]] * 2)
    return JoinedRows.of_rows(matrix, np.repeat([0.0, 1.0], 4), np.asarray(weight, dtype=float), seed)


def test_copies_and_weights_give_the_same_rows():
    rng = np.random.default_rng(0)
    matrix = rng.integers(0, 3, (200, 3)).astype(float)
    matrix[rng.random(200) < 0.2, 1] = np.nan
    label, weight = rng.integers(0, 2, 200).astype(float), rng.integers(1, 4, 200)
    copies = rng.permutation(np.repeat(np.arange(200), weight))
    joined = JoinedRows.of_rows(matrix, label, weight.astype(float), seed=1)
    copied = JoinedRows.of_rows(matrix[copies], label[copies], np.ones(len(copies)), seed=1)
    for name in ("matrix", "label", "weight"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(copied, name))
    assert joined.weight.sum() == weight.sum()
    assert len(joined) == len(np.unique(np.column_stack([np.nan_to_num(matrix, nan=-1), label]), axis=0))


def test_fractions_sum_alike_in_any_order():
    weight = np.array([0.1, 0.7, 1e-9, 3.3, 0.2])
    sums = {
        float(JoinedRows.of_rows(np.ones((5, 1)), np.ones(5), weight[order], seed=0).weight[0])
        for order in map(np.random.default_rng(0).permutation, [5] * 20)
    }
    assert len(sums) == 1


def test_parts_add_up_and_keep_the_share_of_each_class():
    rows = counted([100, 200, 300, 400, 50, 50, 50, 50])
    part, rest = rows.parted(0.2, np.random.default_rng(0))
    for value, expected in ((0.0, 200.0), (1.0, 40.0)):
        assert part.weight[part.label == value].sum() == expected
        assert rest.weight[rest.label == value].sum() == 4 * expected
    whole = JoinedRows.of_rows(*(np.concatenate(each) for each in zip(_arrays(part), _arrays(rest), strict=True)), 0)
    np.testing.assert_array_equal(whole.weight, rows.weight)


def _arrays(rows):
    return rows.matrix, rows.label, rows.weight


def test_copies_fall_on_their_own():
    # One of two copies of each of four rows of a class: the row is split as often as chance splits it.
    split = 0
    for seed in range(300):
        part, rest = counted([2] * 8).parted(0.5, np.random.default_rng(seed))
        assert part.weight.sum() == rest.weight.sum() == 8
        split += np.sum(part.weight == 1.0)
    # P(exactly one of two copies is among 4 drawn out of 8) = 4·4/(8·7/2) = 4/7, for eight rows.
    assert split / (300 * 8) == pytest.approx(4 / 7, abs=0.03)


def test_fractions_fall_whole():
    part, rest = counted([0.5] * 8).parted(0.25, np.random.default_rng(0))
    assert part.weight.tolist() == [0.5, 0.5]
    assert rest.weight.tolist() == [0.5] * 6


def test_beyond_what_numpy_draws_the_share_still_holds(monkeypatch):
    monkeypatch.setattr(joined_rows, "_MOST_COPIES", 1000)
    part, _ = counted([10_000] * 8).parted(0.2, np.random.default_rng(0))
    assert part.weight.sum() == pytest.approx(16_000, rel=0.03)


def test_two_rows_of_a_class_are_distinct_ones_or_copies():
    def has_two(weight):
        matrix, label = np.array([[0.0], [0.0], [1.0]]), np.array([0.0, 1.0, 1.0])
        return JoinedRows.of_rows(matrix, label, np.asarray(weight), seed=0).has_two_of_each_class()

    assert has_two([2.0, 0.1, 0.1])
    assert not has_two([1.9, 5.0, 5.0])
    lonely = JoinedRows.of_rows(np.zeros((2, 1)), np.array([0.0, 1.0]), np.array([5.0, 1.0]), seed=0)
    assert not lonely.has_two_of_each_class()


def test_equal_rows_share_a_fold_whatever_their_labels():
    rng = np.random.default_rng(0)
    keys, label = rng.integers(0, 50, 2000).astype(np.uint64), rng.integers(0, 3, 2000)
    fold = stratified_folds(keys, label, 5)
    assert pd.Series(fold).groupby(keys).nunique().max() == 1
    assert np.bincount(fold).min() > 300
