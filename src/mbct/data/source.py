"""Anything that holds rows, opened: a file, a relation, a lazy frame, a distributed frame, or a frame in memory."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import NarwhalsError

from mbct.data.columns import Columns, read_columns
from mbct.data.engines.engine import Engine, Frame
from mbct.errors import DataError


@dataclass(frozen=True)
class LazySource:
    """Rows that an engine reads in place."""

    engine: Engine
    frame: Frame

    @property
    def names(self) -> list[str]:
        """Column names."""
        return list(self.frame.collect_schema().names())

    @property
    def native(self) -> Any:
        """The engine's own object."""
        return self.frame.to_native()

    def with_frame(self, frame: Frame) -> "LazySource":
        """Other rows of the same engine."""
        return replace(self, frame=frame)


@dataclass(frozen=True)
class MemorySource:
    """Rows that are in memory already."""

    native: Any
    columns: Columns

    @property
    def names(self) -> list[str]:
        """Column names."""
        return self.columns.names


Source = LazySource | MemorySource


def is_lazy(data: Any) -> bool:
    """Whether ``data`` must be read by an engine: paths, relations, lazy and distributed frames."""
    opened = isinstance(data, str | Path | LazySource) or _is_query(data) or _is_dataset(data)
    return opened or _lazy_frame(data) is not None


def open_source(data: Any, *, memory_limit: str | None = None, threads: int | None = None) -> Source:
    """Open anything that holds rows: in place, or in memory.

    Parameters
    ----------
    data : path, relation, frame or array
        A path or glob of Parquet or CSV files, a table of a database as ``duckdb:///file.db?table=name``, a DuckDB
        relation, a pair (DuckDB connection, SQL), a polars frame, a pyarrow Dataset or Table, a PySpark data frame, a
        pandas frame or a numpy array.
    memory_limit, threads : str and int, or None, default=None
        Memory ("1GB", beyond which it spills to disk) and threads of the embedded DuckDB that reads files and Datasets.

    Returns
    -------
    source : LazySource or MemorySource
        Rows that stay in their engine, or that are in memory.
    """
    if isinstance(data, LazySource | MemorySource):
        return data
    if isinstance(data, str | Path):
        from mbct.data.engines.duckdb import open_files

        return LazySource(*open_files(os.fspath(data), memory_limit=memory_limit, threads=threads))
    if _is_query(data):
        connection, query = data
        return _lazy_source(nw.from_native(connection.sql(query)))
    if _is_dataset(data):
        from mbct.data.engines.duckdb import open_dataset

        return LazySource(*open_dataset(data, memory_limit=memory_limit, threads=threads))
    frame = _lazy_frame(data)
    return MemorySource(data, read_columns(data)) if frame is None else _lazy_source(frame)


def _is_query(data: Any) -> bool:
    return isinstance(data, tuple) and len(data) == 2 and hasattr(data[0], "sql") and isinstance(data[1], str)


def _is_dataset(data: Any) -> bool:
    return type(data).__module__ == "pyarrow._dataset"


def _lazy_frame(data: Any) -> Frame | None:
    if isinstance(data, np.ndarray):
        return None
    try:
        opened = data if isinstance(data, nw.LazyFrame) else nw.from_native(data, pass_through=True)
    except NarwhalsError:  # A frame in memory that repeats a name, say: reading it tells what is wrong.
        return None
    return opened if isinstance(opened, nw.LazyFrame) else None


def _lazy_source(frame: Frame) -> LazySource:
    kind = frame.implementation
    if kind.is_duckdb():
        from mbct.data.engines.duckdb import DuckDBEngine
        from mbct.data.engines.duckdb_files import import_duckdb

        import_duckdb()
        return LazySource(DuckDBEngine(frame.to_native()), frame)
    if kind.is_polars():
        from mbct.data.engines.polars import PolarsEngine

        return LazySource(PolarsEngine(), frame)
    if kind.is_pyspark() or kind.is_pyspark_connect():
        from mbct.data.engines.spark import SparkEngine

        return LazySource(SparkEngine(), frame)
    raise DataError(f"frames of {kind} are not read; pass DuckDB, polars, PySpark, pandas, pyarrow or a path")
