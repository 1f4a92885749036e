import gzip
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from mbct.data import aggregate, fit_bins, open_source
from mbct.data.columns import in_memory
from mbct.data.source import LazySource, MemorySource, is_lazy
from mbct.errors import DataError, ParameterError, StorageError

FRAME = pl.DataFrame({"p": [0.1, 0.5, 0.9, 0.5], "y": [0, 1, 1, 0], "site": ["a", "b", "a", None]})
COLUMNS = {"score_column": "p", "label": "y"}


def _expected() -> tuple[object, list[float]]:
    bins = fit_bins(FRAME, **COLUMNS)
    return bins, aggregate(FRAME, bins, label="y").sums.pred.tolist()


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv", "rows.CSV.GZ", "rows.tsv"])
def test_files_are_opened_by_their_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith(".parquet"):
        FRAME.write_parquet(path)
    elif name.endswith(".GZ"):
        path.write_bytes(gzip.compress(FRAME.write_csv().encode()))
    else:
        FRAME.write_csv(path, separator="\t" if name.endswith(".tsv") else ",")
    bins, sums = _expected()
    for data in (path, str(path)):
        assert is_lazy(data)
        assert fit_bins(data, **COLUMNS) == bins
        assert aggregate(data, bins, label="y").sums.pred.tolist() == sums


def test_a_glob_opens_all_files(tmp_path: Path) -> None:
    FRAME[:2].write_parquet(tmp_path / "a.parquet")
    FRAME[2:].write_parquet(tmp_path / "b.parquet")
    bins, sums = _expected()
    found = aggregate(str(tmp_path / "*.parquet"), bins, label="y")
    assert found.sums.pred.tolist() == pytest.approx(sums, rel=1e-12)


def test_a_table_of_a_database(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "rows.db")) as connection:
        connection.from_arrow(FRAME.to_arrow()).create("clicks")
    bins, _ = _expected()
    for path in (f"duckdb:///{tmp_path}/rows.db?table=clicks", f"duckdb:///{tmp_path}/rows.db"):
        assert fit_bins(path, **COLUMNS) == bins
    with pytest.raises(StorageError, match=r"no database .*none\.db"):
        open_source(f"duckdb:///{tmp_path}/none.db")


def test_a_quote_in_a_path_is_no_trap(tmp_path: Path) -> None:
    path = tmp_path / "it's.parquet"
    FRAME.write_parquet(path)
    assert open_source(path).names == FRAME.columns


def test_kinds_of_sources() -> None:
    connection = duckdb.connect()
    lazy = [FRAME.lazy(), connection.from_arrow(FRAME.to_arrow()), (connection, "SELECT 1 AS a"), "x.parquet"]
    assert all(is_lazy(data) for data in lazy)
    eager = [FRAME, FRAME.to_pandas(), FRAME.to_arrow(), np.zeros((2, 2)), {"a": [1]}, [[1.0], [2.0]], pd.Series([1.0])]
    assert not any(is_lazy(data) for data in eager)
    assert not any(in_memory(data) for data in lazy)
    assert all(in_memory(data) for data in eager[:5])
    assert isinstance(open_source(FRAME.lazy()), LazySource)
    opened = open_source(FRAME.to_arrow())
    assert isinstance(opened, MemorySource)
    assert open_source(opened) is opened


def test_the_embedded_engine_keeps_to_its_limits(tmp_path: Path) -> None:
    FRAME.write_parquet(tmp_path / "a.parquet")
    source = open_source(tmp_path / "a.parquet", memory_limit="300MB", threads=1)
    settings = "SELECT current_setting('memory_limit'), current_setting('threads'), current_setting('temp_directory')"
    (limit, threads, folder), *_ = source.native.query("rows", settings).fetchall()
    assert limit.startswith("286")  # MiB
    assert threads == 1
    assert "mbct-duckdb-" in folder
    with pytest.raises(ParameterError, match="memory_limit='lots'"):
        open_source(tmp_path / "a.parquet", memory_limit="lots")


def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.xls").write_bytes(b"no table")
    with pytest.raises(DataError, match=r"cannot tell what .*rows.xls is: name it \.parquet"):
        open_source(tmp_path / "rows.xls")
    with pytest.raises(StorageError, match=r"cannot read .*none\.parquet"):
        open_source(tmp_path / "none.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"no parquet")
    with pytest.raises(StorageError, match=r"cannot read .*broken\.parquet"):
        open_source(tmp_path / "broken.parquet")


def test_a_connection_without_python_objects_says_what_to_set() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE rows AS SELECT 0.1 AS p, 1 AS y")
    connection.execute("SET python_enable_replacements = false")
    source = open_source(connection.table("rows"))
    assert isinstance(source, LazySource)
    with pytest.raises(DataError, match="SET python_enable_replacements = true"):
        source.engine.table(source.frame, {"a": np.array([1])})
