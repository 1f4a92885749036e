"""DuckDB: a relation of the user's own connection, or the embedded engine that opens files.

Small tables enter as Arrow; temporary tables spill to disk under the memory limit.
"""

import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import narwhals.stable.v2 as nw
import numpy as np

from mbct.data.engines.engine import ColumnOf, Engine, Frame, Lookup, lazy
from mbct.data.expressions import total_sql
from mbct.errors import DataError, ParameterError, StorageError
from mbct.lazy import optional
from mbct.model.conditions import CodeDecision
from mbct.validation import FloatArray

DATABASE = "duckdb://"
"""How the path of a database begins: ``duckdb:///file.db?table=name``."""
_READERS = {
    ".parquet": "read_parquet",
    ".pq": "read_parquet",
    ".csv": "read_csv",
    ".tsv": "read_csv",
    ".txt": "read_csv",
}
_CSV_TYPES = "['BIGINT', 'HUGEINT', 'DOUBLE', 'VARCHAR']"
_PACKED = (".gz", ".zst")
_MAGIC = {b"PAR1": ".parquet", b"\x1f\x8b": ".csv.gz"}
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


def import_duckdb() -> Any:
    """The duckdb package, with pyarrow, which carries its results."""
    return optional("reading files in place needs DuckDB: pip install 'mbct[cli]'", "duckdb", "pyarrow")


def connect(path: str | None = None, *, memory_limit: str | None = None, threads: int | None = None) -> Any:
    """An embedded DuckDB that spills into the system's temporary folder, which it leaves clean.

    Where ``path`` names a database (``duckdb:///file.db``), that one is opened, for reading only.
    """
    duckdb = import_duckdb()
    database = ":memory:"
    if path is not None and path.startswith(DATABASE):
        # duckdb:///clicks.db is relative, duckdb:////tmp/clicks.db absolute, as in SQLAlchemy.
        parts = urlsplit(path)
        database = unquote(parts.netloc + parts.path.removeprefix("/"))
        if not Path(database).is_file():
            raise StorageError(f"no database {database}; check the path in {path}")
    spill = Path(tempfile.gettempdir()) / f"mbct-duckdb-{uuid.uuid4().hex}"
    settings: dict[str, Any] = {"temp_directory": str(spill)}
    if memory_limit is not None:
        settings["memory_limit"] = memory_limit
    if threads is not None:
        settings["threads"] = threads
    try:
        connection = duckdb.connect(database, read_only=database != ":memory:", config=settings)
    except (duckdb.InvalidInputException, duckdb.ParserException) as error:
        raise ParameterError(f"DuckDB refuses memory_limit={memory_limit!r}, threads={threads!r}: {error}") from error
    # Timestamps are read and written in UTC, whatever zone the machine is in.
    return connection.execute("SET TimeZone = 'UTC'")


def reading(connection: Any, path: str) -> str:
    """What to SELECT FROM: a table of the database that ``path`` names, or the reader of a file or glob."""
    if path.startswith(DATABASE):
        table = table_of(path) or _only_table(connection, path)
        return ".".join(quoted(part) for part in table.split("."))
    reader = _reader_of(path)
    if reader == "read_csv":
        # Types are inferred from the whole file: a letter in its last row would else stop a run at its end. Only plain
        # numbers are numbers: booleans, dates and 007 keep their spelling, as they do in every other runtime.
        return f"read_csv({text(path)}, sample_size = -1, header = true, auto_type_candidates = {_CSV_TYPES})"
    # Parquet statistics do not count NaN; without this option DuckDB takes columns for free of it.
    knows = connection.execute(
        "SELECT count(*) FROM duckdb_functions() "
        "WHERE function_name = 'read_parquet' AND list_contains(parameters, 'can_have_nan')"
    ).fetchall()[0][0]
    return f"read_parquet({text(path)}{', can_have_nan = true' if knows else ''})"


def reading_text(path: str) -> str:
    """What to SELECT FROM for every value of a CSV file as it is spelled there."""
    return f"read_csv({text(path)}, sample_size = -1, header = true, all_varchar = true)"


def is_text(path: str) -> bool:
    """Whether a path holds text, which would be parsed anew for every query."""
    return not path.startswith(DATABASE) and _reader_of(path) == "read_csv"


def table_of(path: str) -> str | None:
    """The table that the path of a database names."""
    return parse_qs(urlsplit(path).query).get("table", [None])[0]


def _only_table(connection: Any, path: str) -> str:
    names = [row[0] for row in connection.execute("SELECT table_name FROM information_schema.tables").fetchall()]
    if len(names) != 1:
        listed = ", ".join(sorted(names)) or "none"
        raise DataError(f"which table of {path}? add ?table=name; there are: {listed}")
    return str(names[0])


def _reader_of(path: str) -> str:
    local, is_glob = "://" not in path, any(sign in path for sign in "*?[")
    if local and not is_glob and not Path(path).is_file():
        if Path(path).is_dir():
            raise StorageError(f"cannot read {path}: it is a folder; name its files, for example '{path}/*.parquet'")
        raise StorageError(f"cannot read {path}: it does not exist; check the path")
    bare = path.lower()
    for ending in _PACKED:
        bare = bare.removesuffix(ending)
    reader = _READERS.get(Path(bare).suffix)
    if reader is not None:
        return reader
    if local and not is_glob and ending_by_content(Path(path)) == ".parquet":
        return "read_parquet"
    raise DataError(f"cannot tell what {path} is: name it .parquet or .csv (or .csv.gz)")


def ending_by_content(path: Path) -> str:
    """The ending that a file's first bytes deserve."""
    with path.open("rb") as handle:
        start = handle.read(4)
    return next((ending for magic, ending in _MAGIC.items() if start.startswith(magic)), ".csv")


def first_line(error: Exception) -> str:
    """What DuckDB says of an error before it quotes the query."""
    return str(error).strip().splitlines()[0]


def quoted(name: str) -> str:
    """A name in SQL.

    >>> quoted('a "b" c')
    '"a ""b"" c"'
    """
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text in SQL.

    >>> text("O'Hare")
    "'O''Hare'"
    """
    return "'" + value.replace("'", "''") + "'"
