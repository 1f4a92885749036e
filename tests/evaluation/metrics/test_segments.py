import numpy as np
import pandas as pd
import polars as pl
import pytest

from mbct.evaluation.metrics.rows import MISSING, read_segments, segment


def test_missing_values_are_a_segment_of_their_own():
    for column in (
        pd.Series(["b", None, "a"], name="site"),
        pl.Series("site", ["b", None, "a"]),
        pd.Series(["b", None, "a"], name="site", dtype="category"),
        pd.Series(["b", pd.NA, "a"], name="site", dtype="string"),
        np.array(["b", None, "a"], dtype=object),
    ):
        (found,) = read_segments(column)
        assert found.codes.tolist() == [1, 2, 0]
        assert found.labels == ("a", "b", MISSING)
        assert found.name == ("site" if not isinstance(column, np.ndarray) else "segment")


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"a": [1, 2, 1], "b": ["x", "y", "z"]}),
        pl.DataFrame({"a": [1, 2, 1], "b": ["x", "y", "z"]}),
        {"a": [1, 2, 1], "b": ["x", "y", "z"]},
    ],
)
def test_every_column_of_a_frame(frame):
    a, b = read_segments(frame)
    assert (a.name, a.labels, a.codes.tolist()) == ("a", ("1", "2"), [0, 1, 0])
    assert (b.name, len(b)) == ("b", 3)


def test_fractions_of_many_values_fall_into_quantiles():
    x = np.random.default_rng(0).normal(size=1000)
    x[:10] = np.nan
    found = segment(x, "x")
    assert len(found) == 11
    assert found.labels[0].startswith("≤ ")
    assert found.labels[-1] == MISSING
    assert np.bincount(found.codes)[:10].tolist() == [99] * 10
    assert len(segment(np.arange(500.0), "whole numbers are values")) == 500


def test_mixed_types_and_dates():
    found = segment(np.array([1, "1", True, None], dtype=object), "mixed")
    assert len(set(found.codes.tolist())) >= 3
    dates = pd.Series(pd.to_datetime(["2024-01-02", None, "2024-01-01"]))
    (found,) = read_segments(dates)
    assert found.codes.tolist() == [1, 2, 0]


def test_a_numpy_table_has_named_columns():
    found = read_segments(np.array([[1, 2], [3, 4]]))
    assert [f.name for f in found] == ["x0", "x1"]
