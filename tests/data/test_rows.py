from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from mbct.data import aggregate, fit_bins
from mbct.errors import DataError

Open = Callable[[Path], Any]
GOOD = {"p": [0.1, 0.5, 0.9], "y": [0, 1, 1], "w": [1.0, 2.0, 0.0], "site": ["a", "b", "a"]}


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("p", [0.1, None, float("nan")], "score column 'p' is not a number in 2 rows; drop or fill"),
        ("p", [0.1, 1.5, 7.0], r"score column 'p' lies outside \[0, 1\] in 2 rows, for example 7; pass prob"),
        ("p", ["a", "b", "c"], "score column 'p' must be numeric, but it is String"),
        ("y", [0, None, 1], "label column 'y' is missing in 1 row; drop"),
        ("y", [0, 2, 1], "label column 'y' is neither 0 nor 1 in 1 row, for example 2; map"),
        ("y", [0.0, float("inf"), 1.0], "label column 'y' is neither 0 nor 1 in 1 row, for example inf"),
        ("y", [0.0, float("nan"), 1.0], "label column 'y' is missing in 1 row"),
        ("p", [0.1, float("-inf"), 0.5], r"score column 'p' lies outside \[0, 1\] in 1 row, for example -inf"),
        ("p", [0.1, -1e-300, 0.5], r"score column 'p' lies outside \[0, 1\] in 1 row"),
        ("w", [1.0, None, 1.0], "weight column 'w' is not finite in 1 row"),
        ("w", [1.0, float("inf"), 1.0], "weight column 'w' is not finite in 1 row"),
        ("w", [1.0, -2.0, 1.0], "weight column 'w' is negative in 1 row, for example -2"),
        ("w", [0.0, 0.0, 0.0], "weight column 'w' is zero for every row"),
    ],
)
def test_bad_rows_are_counted_and_shown(tmp_path: Path, column: str, values: list[Any], message: str) -> None:
    pl.DataFrame({**GOOD, column: values}, strict=False).write_parquet(tmp_path / "rows.parquet")
    for source in (tmp_path / "rows.parquet", pl.scan_parquet(tmp_path / "rows.parquet")):
        with pytest.raises(DataError, match=message):
            fit_bins(source, score_column="p", label="y", weight="w")


def test_missing_columns_and_empty_data_are_named(tmp_path: Path) -> None:
    rows = pl.LazyFrame(GOOD)
    with pytest.raises(DataError, match=r"columns are missing: 'q', 'r'; the data has 'p', 'y', 'w', 'site'"):
        fit_bins(rows, score_column="q", label="y", features=["r"])
    with pytest.raises(DataError, match="empty"):
        fit_bins(rows.filter(pl.col("p") > 1), score_column="p", label="y")


def test_a_row_of_weight_zero_leaves_no_trace(awkward_file: Path, opened_lazily: Open) -> None:
    wanted = {"score_column": "p", "label": "label", "weight": "weight", "features": ["site", "x"]}
    kept = pl.read_parquet(awkward_file).filter(pl.col("weight") > 0)
    bins = fit_bins(kept, **wanted)
    assert fit_bins(opened_lazily(awkward_file), **wanted) == bins
    found = aggregate(opened_lazily(awkward_file), bins, label="label", weight="weight")
    assert float(found.total.count) == kept["weight"].sum()


def test_labels_may_be_booleans(tmp_path: Path) -> None:
    frame = pl.DataFrame({**GOOD, "y": [False, True, True]})
    frame.write_parquet(tmp_path / "rows.parquet")
    bins = fit_bins(frame, score_column="p", label="y")
    for source in (tmp_path / "rows.parquet", frame.lazy(), frame):
        assert float(aggregate(source, bins, label="y").total.label) == 2.0
