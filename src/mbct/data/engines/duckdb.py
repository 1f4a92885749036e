"""DuckDB: a relation of the user's own connection, or the embedded engine that opens files.

Small tables enter as Arrow; temporary tables spill to disk under the memory limit.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from mbct.data.engines.duckdb_files import connect, first_line, import_duckdb, is_text, quoted, reading, text
from mbct.data.engines.engine import ColumnOf, Engine, Frame, Lookup, lazy
from mbct.data.expressions import total_sql
from mbct.errors import DataError, StorageError
from mbct.model.conditions import CodeDecision
from mbct.validation import FloatArray

_MOST_ENUM_VALUES = 5_000  # Larger vocabularies are joined: an enum type of 100,000 texts takes seconds to declare
_TABLE_PREFIX = "mbct_"
_BATCH_ROWS = 500_000


class DuckDBEngine(Engine):
    """Queries run on the connection of ``root``, a relation that must outlive all others."""

    streams = True

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

    def table(self, _beside: Frame, columns: Mapping[str, np.ndarray[Any, Any]]) -> Frame:
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

    def in_utc(self, frame: Frame, columns: Sequence[str]) -> Frame:
        """As SQL: an expression object would read the zone of the connection."""
        moved = ", ".join(f"{quoted(name)} AT TIME ZONE 'UTC' AS {quoted(name)}" for name in columns)
        return lazy(frame.to_native().project(f"* REPLACE ({moved})"))

    def look_up(self, frame: Frame, lookups: Sequence[Lookup]) -> Frame:
        """By the position of a text in an enum type, which keeps the order of rows; by a join where there are many."""
        short = [lookup for lookup in lookups if 0 < len(lookup.code_of) <= _MOST_ENUM_VALUES]
        if short:
            coded = ", ".join(f"{_code_by_enum(lookup)} AS {quoted(lookup.into)}" for lookup in short)
            frame = lazy(frame.to_native().project(f"*, {coded}"))
        return super().look_up(frame, [lookup for lookup in lookups if lookup not in short])

    def sum_trees(
        self, frame: Frame, into: str, terms: Sequence[CodeDecision], column: ColumnOf, *, product: bool
    ) -> Frame:
        """As SQL text, which is written and bound much faster than expression objects."""
        total = total_sql(terms, lambda feature: quoted(column(feature)), product=product)
        return lazy(frame.to_native().project(f"*, {total} AS {quoted(into)}"))

    def unpivot(self, frame: Frame, columns: Sequence[str], into: str, kept: Sequence[str]) -> Frame:
        """Unnest a list of the columns."""
        listed = ", ".join(map(quoted, columns))
        beside = "".join(f", {quoted(name)}" for name in kept)
        return lazy(frame.to_native().project(f"unnest([{listed}]) AS {quoted(into)}{beside}"))

    def count_distinct(self, frame: Frame, columns: Sequence[str]) -> int:
        """HyperLogLog of the columns' hash."""
        listed = ", ".join(map(quoted, columns))
        return int(frame.to_native().aggregate(f"approx_count_distinct(hash({listed}))").fetchall()[0][0])

    def quantiles(self, frame: Frame, column: str, n_points: int) -> FloatArray:
        """Values at evenly spaced ranks of the sorted column, picked while it streams past.

        DuckDB sorts on disk what memory does not hold; its sketches of quantiles differ from run to run.
        """
        native = frame.to_native().project(quoted(column))
        n_rows = int(native.aggregate("count(*)").fetchall()[0][0])
        ranks = np.linspace(0, n_rows - 1, n_points).round().astype(np.int64)
        points, passed = [], 0
        for batch in self.batches(lazy(native.order(quoted(column)))):
            values = np.asarray(batch[column].to_numpy(), dtype=np.float64)
            points.append(values[ranks[(passed <= ranks) & (ranks < passed + len(values))] - passed])
            passed += len(values)
        return np.concatenate(points)

    def materialize(self, frame: Frame) -> Frame:
        """A temporary table."""
        name = _TABLE_PREFIX + uuid.uuid4().hex
        frame.to_native().query("mbct_rows", f"CREATE TEMP TABLE {name} AS SELECT * FROM mbct_rows")
        # Read through the root: a relation made from ``frame`` would need all that ``frame`` was made from.
        return lazy(self.root.query("mbct_root", f"SELECT * FROM temp.{name}").set_alias(name))

    def release(self, frame: Frame) -> None:
        """Drop the temporary table."""
        name = frame.to_native().alias
        if name.startswith(_TABLE_PREFIX):
            self.root.query("mbct_root", f"DROP TABLE temp.{name}")


def open_files(path: str, *, memory_limit: str | None, threads: int | None) -> tuple[DuckDBEngine, Frame]:
    """A file, all files of a glob, or a table of a database, read by an embedded DuckDB."""
    duckdb = import_duckdb()
    connection = connect(path, memory_limit=memory_limit, threads=threads)
    try:
        engine = DuckDBEngine(connection.sql("SELECT 1"))
        frame = lazy(connection.sql(f"SELECT * FROM {reading(connection, path)}"))
        return engine, engine.materialize(frame) if is_text(path) else frame
    except duckdb.Error as error:
        raise StorageError(f"cannot read {path}: {first_line(error)}") from error


def open_dataset(dataset: Any, *, memory_limit: str | None, threads: int | None) -> tuple[DuckDBEngine, Frame]:
    """A pyarrow Dataset, scanned by an embedded DuckDB."""
    connection = connect(memory_limit=memory_limit, threads=threads)
    return DuckDBEngine(connection.sql("SELECT 1")), lazy(connection.from_arrow(dataset))


def _code_by_enum(lookup: Lookup) -> str:
    """Code of a text by its position in an enum type."""
    declared = ", ".join(map(text, lookup.code_of))
    position = f"enum_code(TRY_CAST({quoted(lookup.column)} AS ENUM({declared})))"
    codes = list(lookup.code_of.values())
    if codes != list(range(len(codes))):
        position = f"list_extract({codes}, {position} + 1)"
    return f"CAST({position} AS INTEGER)"
