"""Distinct values and positions put a column together again, whatever holds it."""

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
import pytest

from mbct.engines.factorize import factorize

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
