"""Rows that are coded as they come have the bins and codes that memory gives them."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import mbct.data.engines.duckdb as duckdb_engine
import mbct.data.strategy as strategy
from mbct import MBCTCalibrator
from mbct.calibrators.persistence import dumps
from mbct.data import fit_bins
from mbct.data.columns import encode, read_columns
from mbct.data.raw_cells import RawRows
from mbct.data.rows import training_rows
from mbct.data.source import LazySource, open_source
from mbct.errors import DataError
from mbct.training.binning import BinningOptions
from mbct.training.cells import build_cells

FEATURES = ["site", "x", "single", "hour", "flag", "day", "moment", "half", "price"]
CATEGORICAL = ["hour", "half", "price"]
BY_VALUE = {"site", "hour", "flag", "day", "moment", "half", "price"}
OPTIONS = BinningOptions(numeric_bins=20, score_bins=20, score_binning="width", min_category_rows=1.0)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB hands out whole vectors of 2,048 rows."""
    monkeypatch.setattr(duckdb_engine, "_BATCH_ROWS", 2048)


def _read(data: Any, features: list[str], by_value: set[str], weight: str | None, *, join: bool) -> Any:
    source = open_source(data)
    assert isinstance(source, LazySource)
    rows = training_rows(source, "p", "label", weight, features)
    return RawRows(rows, "p", features, set(by_value), OPTIONS).row_by_row(join=join)


@pytest.mark.parametrize("join", [False, True])
@pytest.mark.parametrize("weight", [None, "weight"])
def test_bins_codes_and_sums_are_those_of_memory(awkward_file: Path, weight: str | None, join: bool) -> None:
    frame = pl.read_parquet(awkward_file)
    frame = frame if weight is None else frame.filter(pl.col(weight) > 0)
    bins = fit_bins(
        frame,
        score_column="p",
        label="label",
        weight=weight,
        features=FEATURES,
        categorical=CATEGORICAL,
        options=OPTIONS,
    )
    p, y = frame["p"].to_numpy(), frame["label"].to_numpy().astype(float)
    w = np.ones(len(p)) if weight is None else frame[weight].to_numpy()
    expected = build_cells(encode(read_columns(frame), bins, p), p, y, w, bins, "auto" if join else "row")
    found_bins, found = _read(awkward_file, FEATURES, BY_VALUE, weight, join=join)
    assert found_bins == bins
    np.testing.assert_array_equal(found.codes, expected.codes)
    assert found.one_score == expected.one_score
    for f in fields(found.sums):
        if f.name != "logit":
            np.testing.assert_allclose(getattr(found.sums, f.name), getattr(expected.sums, f.name), rtol=1e-12)


def test_values_that_turn_up_late_have_their_place(tmp_path: Path) -> None:
    """Values become more than a byte, then more than the first table of sums, holds."""
    rng = np.random.default_rng(8)
    n = 30_000
    key = rng.integers(0, 1 + np.arange(n) // 20, n)
    frame = pl.DataFrame({"p": rng.random(n).round(2), "label": rng.integers(0, 2, n), "key": key})
    frame = frame.with_columns(pl.format("k{}", "key").alias("text"))
    frame.write_parquet(tmp_path / "rows.parquet")
    found_bins, found = _read(tmp_path / "rows.parquet", ["key", "text"], {"key", "text"}, None, join=False)
    bins = fit_bins(frame, score_column="p", label="label", categorical="all", options=OPTIONS)
    assert found_bins == bins
    assert found.codes.dtype == np.uint16
    np.testing.assert_array_equal(found.codes, encode(read_columns(frame), bins, frame["p"].to_numpy()))


def test_rows_that_do_not_shrink_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    n = 20_000
    keys = {f"key{j}": rng.zipf(1.3, n) % 40 for j in range(8)}
    p = rng.beta(1.0, 3.0, n).round(3)
    y = (rng.random(n) < np.clip(p * np.where(keys["key0"] < 3, 1.6, 0.6), 0, 1)).astype(int)
    frame = pl.DataFrame({"p": p, "label": y, **keys})
    frame.write_parquet(tmp_path / "rows.parquet")
    monkeypatch.setattr(strategy, "_WORTH_ESTIMATING", 1000)
    taken, row_by_row = [], RawRows.row_by_row
    monkeypatch.setattr(RawRows, "row_by_row", lambda raw, join: taken.append(join) or row_by_row(raw, join=join))
    for categorical in ("all", "auto"):
        parameters = {
            "score_column": "p",
            "preset": "paper",
            "min_bin_size": 300,
            "max_trees": 3,
            "categorical": categorical,
        }
        fitted = MBCTCalibrator(**parameters).fit(tmp_path / "rows.parquet", "label")
        assert fitted.model_.n_rules > 4
        assert dumps(fitted) == dumps(MBCTCalibrator(**parameters).fit(frame, "label"))
    assert taken == [False, True]


def test_a_fault_of_a_column_is_raised(tmp_path: Path) -> None:
    frame = pl.DataFrame({"p": [0.1, 0.2], "label": [0, 1], "list": [[1], [2]]})
    frame.write_parquet(tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=r"column 'list' is .*no category"):
        _read(tmp_path / "rows.parquet", ["list"], {"list"}, None, join=False)
