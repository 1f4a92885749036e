from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl

from mbct import MBCTCalibrator
from mbct.calibrators.persistence import dumps
from mbct.data import fit_bins
from mbct.data.columns import encode, read_columns
from mbct.data.levels import EngineLevels
from mbct.data.rows import training_rows
from mbct.data.source import LazySource, open_source
from mbct.data.strategy import coded_rows, estimate_cells
from mbct.training.cells import build_cells
from mbct.training.paper.histogram import CellSource

Open = Callable[[Path], Any]


def _coded(data: Any, bins: Any) -> LazySource:
    source = open_source(data)
    assert isinstance(source, LazySource)
    return coded_rows(training_rows(source, "p", "label", None, bins.names[1:]), bins)


def test_sums_moves_and_multiplications_are_those_of_memory(awkward_file: Path, opened_lazily: Open) -> None:
    frame = pl.read_parquet(awkward_file)
    bins = fit_bins(frame, score_column="p", label="label", features=["site", "flag"])
    y_prob, y_true = frame["p"].to_numpy(), frame["label"].to_numpy().astype(float)
    codes = encode(read_columns(frame), bins, y_prob)
    reference = CellSource(build_cells(codes, y_prob, y_true, None, bins, "row"), 1)
    n_sites = bins[1].n_codes
    table = np.full(n_sites, -1, np.int32)
    table[:2] = [1, 2]
    feature, start = np.array([1, -1, -1], np.int32), np.zeros(3, np.int64)
    with EngineLevels(_coded(opened_lazily(awkward_file), bins), bins.n_codes) as levels:
        np.testing.assert_allclose(levels.level_sums([0]), reference.level_sums([0]), rtol=1e-12, atol=1e-12)
        for source in (levels, reference):
            source.move(feature, start, table)
        nodes = [0, 1, 2]
        np.testing.assert_allclose(levels.level_sums(nodes), reference.level_sums(nodes), rtol=1e-12, atol=1e-12)
        for source in (levels, reference):
            source.multiply(np.array([1.0, 0.5, 1.7]))
        np.testing.assert_allclose(levels.level_sums([0]), reference.level_sums([0]), rtol=1e-12, atol=1e-12)


def test_nothing_is_left_behind_in_the_users_connection(awkward_file: Path) -> None:
    connection = duckdb.connect()
    relation = connection.sql(f"SELECT * FROM '{awkward_file}'")
    parameters = {
        "score_column": "p",
        "features": ["site", "x"],
        "preset": "paper",
        "min_bin_size": 500,
        "max_trees": 2,
    }
    MBCTCalibrator(**parameters, strategy="level-wise").fit(relation, "label")
    assert connection.sql("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]


def test_data_that_do_not_shrink_grow_in_spark(tmp_path: Path, spark: Any) -> None:
    """Eight independent keys: hardly two rows share a cell, so the rows stay where they are."""
    rng = np.random.default_rng(4)
    n = 3000
    keys = {f"key{j}": rng.zipf(1.3, n) % 40 for j in range(8)}
    p = rng.beta(1.0, 3.0, n).round(3)
    y = (rng.random(n) < np.clip(p * np.where(keys["key0"] < 3, 1.6, 0.6), 0, 1)).astype(int)
    frame = pl.DataFrame({"p": p, "label": y, **keys})
    frame.write_parquet(tmp_path / "rows.parquet")
    data = spark.read.parquet(str(tmp_path / "rows.parquet"))
    bins = fit_bins(frame, score_column="p", label="label", categorical="all")
    assert estimate_cells(_coded(data, bins), bins, "cell") > 0.9 * n
    parameters = {
        "score_column": "p",
        "categorical": "all",
        "preset": "paper",
        "min_bin_size": 200,
        "max_trees": 2,
        "max_depth": 3,
    }
    levels = MBCTCalibrator(**parameters, strategy="level-wise").fit(data, "label")
    assert levels.model_.n_rules > 4
    assert dumps(levels) == dumps(MBCTCalibrator(**parameters).fit(frame, "label"))
