import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from mbct.calibrators.folds import cross_validation_folds, row_keys, sparse_row_keys, stratified_folds
from mbct.engines.columns import read_columns
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
