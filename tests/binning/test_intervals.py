"""The kernel that codes long columns of numbers agrees with numpy's search."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbct.binning.features import NumberBins

numbers = st.floats(-5, 5, width=16)


@given(edges=st.sets(numbers, max_size=40), values=st.lists(numbers, min_size=1, max_size=30))
def test_long_columns_are_coded_like_short_ones(edges, values):
    bins = NumberBins("x", tuple(sorted(edges)))
    some = np.array([*values, *edges, np.nan, np.inf, -np.inf])
    repeated = np.tile(some, 10_000 // len(some) + 1)
    np.testing.assert_array_equal(bins.encode(repeated)[: len(some)], bins.encode(some))


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_other_types_are_coded_too(dtype):
    values = np.arange(20_000).astype(dtype)
    assert NumberBins("x", (3.0, 7.5)).encode(values)[[3, 4, 7, 8]].tolist() == [0, 1, 1, 2]
