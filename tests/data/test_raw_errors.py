"""Data that once ended in a raw error is refused with one sentence, in memory and in engines, or simply works."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from mbct.calibrators.mbct import MBCTCalibrator
from mbct.errors import DataError

N = 400


def rows(**more):
    rng = np.random.default_rng(0)
    p = rng.beta(1.0, 3.0, N)
    return {"p": p, "y": (rng.random(N) < p).astype(int), "s": rng.choice(["a", "b"], N), **more}


def fit(frame, **options):
    return MBCTCalibrator(score_column="p", preset="paper", min_bin_size=50).fit(frame, "y", **options)


@pytest.mark.parametrize("weight", [1e-300, 1e308, 1e200])
@pytest.mark.parametrize("make", [pd.DataFrame, pl.LazyFrame])
def test_weights_beyond_what_can_be_summed(make, weight):
    with pytest.raises(DataError, match="too large or too small to be summed"):
        fit(make(rows(w=np.full(N, weight))), sample_weight="w")


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}])
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pl.LazyFrame])
def test_lists_and_dictionaries_in_a_column(make, value):
    with pytest.raises(DataError, match=r"column 'nested' .*no category"):
        fit(make(rows(nested=[value] * N)))


def test_a_column_twice():
    frame = pd.DataFrame(rows())
    with pytest.raises(DataError, match="unique column names"):
        fit(pd.concat([frame, frame[["s"]]], axis=1))


@pytest.mark.parametrize("name", ["*", "^s.*$", "__mbct_code_1"])
def test_names_that_mean_something_to_an_engine(name):
    frame = pl.DataFrame(rows(**{name: ["c", "d"] * (N // 2)}))
    connection = duckdb.connect()
    for lazy in (frame.lazy(), connection.sql("SELECT * FROM frame")):
        with pytest.raises(DataError, match="cannot be read by its name"):
            fit(lazy)
    for held in (frame, frame.to_pandas()):
        assert name in fit(held).model_.bins.names


def test_whole_numbers_beyond_what_a_float_holds():
    codes = (np.arange(N) % 3).astype(np.uint64) + np.uint64(2**63)
    for make in (pd.DataFrame, pl.DataFrame, pl.LazyFrame):
        bins = (
            MBCTCalibrator(score_column="p", preset="paper", min_bin_size=50, categorical=["code"])
            .fit(make(rows(code=codes)), "y")
            .model_.bins[2]
        )
        assert set(bins.values) == {str(2**63 + k) for k in range(3)}
