"""Distinct values and positions put a column together again, whatever holds it."""

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mbct.data.columns import factorize

INTEGERS = [
    np.array([5, 3, 5], dtype=np.int64),
    np.array([127, -128, 0], dtype=np.int8),
    np.array([2**64 - 1, 2**64 - 3, 2**64 - 1], dtype=np.uint64),
    np.array([0, 2**62, -(2**62)], dtype=np.int64),
    np.array([7], dtype=np.uint8),
]


@pytest.mark.parametrize("column", INTEGERS, ids=lambda c: f"{c.dtype}-{len(c)}")
def test_integers_close_together_and_far_apart(column):
    values, position = factorize(column)
    assert [int(values[i]) for i in position] == column.tolist()
    assert len(set(map(int, values))) == len(values)


def test_texts_of_polars_with_missing_ones():
    column = pl.Series("a", ["x", None, "y", "x", ""])
    values, position = factorize(nw.from_native(column, series_only=True))
    assert [values[i] for i in position] == column.to_list()
    assert len(values) == 4


def test_texts_of_arrow_with_missing_ones():
    column = pa.chunked_array([["x", None], ["y", "x", ""]])
    values, position = factorize(nw.from_native(column, series_only=True))
    assert [values[i] for i in position] == column.to_pylist()
    assert len(values) == 4


@pytest.mark.parametrize(
    "make",
    [
        lambda v: pa.chunked_array([pa.array(v, pa.int64())]),
        lambda v: pl.Series("a", v, pl.Int64),
        lambda v: pd.Series(v, dtype="Int64"),
    ],
    ids=["arrow", "polars", "pandas"],
)
def test_large_integers_beside_missing_ones_keep_their_digits(make):
    """As floats, which numpy makes of integers with missing ones, 2⁵³ and 2⁵³ + 1 are the same."""
    listed = [2**53, None, 2**53 + 1, 2**53, -5]
    values, position = factorize(nw.from_native(make(listed), series_only=True))
    assert [values[i] for i in position] == listed
    assert len(values) == 4
    nothing, _ = factorize(nw.from_native(make([None, None]), series_only=True))
    assert len(nothing) == 1
