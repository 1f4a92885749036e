"""DuckDB: a relation of the user's own connection, or the embedded engine that opens files.

Small tables enter as Arrow; temporary tables spill to disk under the memory limit.
"""

import contextlib
import os
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from mbct.engines.decisions import Decision, total_sql
from mbct.engines.engine import ColumnOf, Frame, Lookup, lazy
from mbct.engines.lookups import join_lookups
from mbct.errors import DataError, MissingDependencyError, ParameterError, StorageError
from mbct.validation import FloatArray

_READERS = {
    ".parquet": "read_parquet",
    ".csv": "read_csv",
    ".csv.gz": "read_csv",
    ".tsv": "read_csv",
    ".tsv.gz": "read_csv",
}
_MOST_ENUM_VALUES = 5_000
"""Larger vocabularies are joined: an enum type of 100,000 texts takes seconds to declare."""
_TABLE_PREFIX = "mbct_"
_BATCH_ROWS = 500_000


class DuckDBEngine:
    """Queries run on the connection of ``root``, a relation that must outlive all others."""

    name = "duckdb"

    def __init__(self, root: Any):
        self.root = root

    def collect(self, frame: Frame) -> nw.DataFrame[Any]:
        """The result as an Arrow table."""
        return frame.collect()

    def batches(self, frame: Frame) -> Iterator[nw.DataFrame[Any]]:
        """The result as Arrow tables, while DuckDB is still making it."""
        import pyarrow as pa

        native = frame.to_native()
        read = native.to_arrow_reader if hasattr(native, "to_arrow_reader") else native.fetch_record_batch
        for batch in read(_BATCH_ROWS):
            yield nw.from_native(pa.Table.from_batches([batch]), eager_only=True)

    def table(self, beside: Frame, columns: Mapping[str, np.ndarray[Any, Any]]) -> Frame:  # noqa: ARG002
        """An Arrow table."""
        import pyarrow as pa

        mbct_small_table = pa.table({name: pa.array(values.tolist()) for name, values in columns.items()})
        try:
            relation = self.root.query("mbct_root", "SELECT * FROM mbct_small_table")
        except Exception as error:
            if type(error).__name__ != "CatalogException":
                raise
            raise DataError(
                "this DuckDB connection cannot read Python objects: SET python_enable_replacements = true"
            ) from error
        del mbct_small_table  # the relation holds it
        return lazy(relation)

    def look_up(self, frame: Frame, lookups: Sequence[Lookup]) -> Frame:
        """By the position of a text in an enum type, which keeps the order of rows; by a join where there are many."""
        short = [lookup for lookup in lookups if 0 < len(lookup.code_of) <= _MOST_ENUM_VALUES]
        if short:
            coded = ", ".join(f"{_position_in_enum(lookup)} AS {_quoted(lookup.into)}" for lookup in short)
            frame = lazy(frame.to_native().project(f"*, {coded}"))
        return join_lookups(self, frame, [lookup for lookup in lookups if lookup not in short])

    def add_total(
        self, frame: Frame, into: str, terms: Sequence[Decision], column: ColumnOf, *, product: bool
    ) -> Frame:
        """As SQL text, which is written and bound much faster than expression objects."""
        total = total_sql(terms, lambda feature: _quoted(column(feature)), product=product)
        return lazy(frame.to_native().project(f"*, {total} AS {_quoted(into)}"))

    def spread(self, frame: Frame, columns: Sequence[str], into: str, kept: Sequence[str]) -> Frame:
        """Unnest a list of the columns."""
        listed = ", ".join(map(_quoted, columns))
        beside = "".join(f", {_quoted(name)}" for name in kept)
        return lazy(frame.to_native().project(f"unnest([{listed}]) AS {_quoted(into)}{beside}"))

    def count_distinct(self, frame: Frame, columns: Sequence[str]) -> int:
        """HyperLogLog of the columns' hash."""
        listed = ", ".join(map(_quoted, columns))
        return int(frame.to_native().aggregate(f"approx_count_distinct(hash({listed}))").fetchall()[0][0])

    def order_points(self, frame: Frame, column: str, n_points: int) -> FloatArray:
        """Quantiles of a t-digest."""
        shares = ", ".join(map(repr, np.linspace(0.0, 1.0, n_points).tolist()))
        points = frame.to_native().aggregate(f"approx_quantile({_quoted(column)}, [{shares}])").fetchall()[0][0]
        return np.sort(np.asarray(points, dtype=np.float64))

    def keep(self, frame: Frame) -> Frame:
        """A temporary table."""
        name = _TABLE_PREFIX + uuid.uuid4().hex
        frame.to_native().query("mbct_rows", f"CREATE TEMP TABLE {name} AS SELECT * FROM mbct_rows")
        # Read through the root: a relation made from ``frame`` would need all that ``frame`` was made from.
        return lazy(self.root.query("mbct_root", f"SELECT * FROM temp.{name}").set_alias(name))

    def let_go(self, frame: Frame) -> None:
        """Drop the temporary table."""
        name = frame.to_native().alias
        if name.startswith(_TABLE_PREFIX):
            self.root.query("mbct_root", f"DROP TABLE temp.{name}")


def open_files(path: str, *, memory_limit: str | None, threads: int | None) -> tuple[DuckDBEngine, Frame]:
    """A file, or all files of a glob, read by an embedded DuckDB."""
    duckdb = import_duckdb()
    reader = _reader_of(path)
    connection = _connect(memory_limit, threads)
    try:
        engine = DuckDBEngine(connection.sql("SELECT 1"))
        frame = lazy(_read(connection, reader, path))
        # A text file would be parsed anew for every query.
        return engine, engine.keep(frame) if reader == "read_csv" else frame
    except duckdb.Error as error:
        raise StorageError(f"cannot read {path}: {str(error).splitlines()[0]}") from error


def _read(connection: Any, reader: str, path: str) -> Any:
    if reader == "read_parquet":
        # Parquet statistics do not count NaN; without this option DuckDB takes columns for free of it.
        with contextlib.suppress(import_duckdb().BinderException):
            return connection.sql(f"SELECT * FROM {reader}({_text(path)}, can_have_nan = true)")
    return connection.sql(f"SELECT * FROM {reader}({_text(path)})")


def open_dataset(dataset: Any, *, memory_limit: str | None, threads: int | None) -> tuple[DuckDBEngine, Frame]:
    """A pyarrow Dataset, scanned by an embedded DuckDB."""
    connection = _connect(memory_limit, threads)
    return DuckDBEngine(connection.sql("SELECT 1")), lazy(connection.from_arrow(dataset))


def _connect(memory_limit: str | None, threads: int | None) -> Any:
    """An embedded DuckDB that spills into the system's temporary folder, which it leaves clean."""
    duckdb = import_duckdb()
    settings: dict[str, Any] = {"temp_directory": str(Path(tempfile.gettempdir()) / f"mbct-duckdb-{uuid.uuid4().hex}")}
    if memory_limit is not None:
        settings["memory_limit"] = memory_limit
    if threads is not None:
        settings["threads"] = threads
    try:
        return duckdb.connect(":memory:", config=settings)
    except duckdb.Error as error:
        raise ParameterError(f"DuckDB refuses memory_limit={memory_limit!r}, threads={threads!r}: {error}") from error


def import_duckdb() -> Any:
    """The duckdb package, with pyarrow, which carries its results."""
    try:
        import duckdb
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("reading files where they lie needs DuckDB: pip install 'mbct[cli]'") from error
    return duckdb


def _reader_of(path: str) -> str:
    for ending, reader in _READERS.items():
        if path.lower().endswith(ending):
            return reader
    raise DataError(f"cannot tell the format of {os.fspath(path)!r} by its name; known are {', '.join(_READERS)}")


def _position_in_enum(lookup: Lookup) -> str:
    by_code = sorted(lookup.code_of, key=lambda text: lookup.code_of[text])
    if [lookup.code_of[text] for text in by_code] != list(range(len(by_code))):
        raise ValueError("codes of a lookup must be 0, 1, 2, …")
    declared = ", ".join(map(_text, by_code))
    return f"CAST(enum_code(TRY_CAST({_quoted(lookup.column)} AS ENUM({declared}))) AS INTEGER)"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
