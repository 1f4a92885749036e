"""Where rows come from: files, globs, standard input, DuckDB databases and SQL, all read as one Arrow table."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from mbct.errors import DataError, MissingDependencyError, StorageError
from mbct.progress import progress

STANDARD_INPUT = "-"
DATABASE = "duckdb://"
VIEW = "data"
"""Name of the source inside ``--sql``."""

_READERS = {
    ".parquet": "read_parquet",
    ".pq": "read_parquet",
    ".csv": "read_csv",
    ".tsv": "read_csv",
    ".txt": "read_csv",
}
_MAGIC = {b"PAR1": ".parquet", b"\x1f\x8b": ".csv.gz"}
_BLOCK = 1 << 20


def read_table(source: str | None, sql: str | None = None) -> Any:
    """The rows of ``source`` as a pyarrow table; ``sql`` is run on it under the name ``data``.

    Without a source, ``sql`` names its own files, for example ``SELECT * FROM 'clicks.parquet'``.
    """
    duckdb = _duckdb()
    if source is None and sql is None:
        raise DataError("no data given: name a file, - for standard input, or a query with --sql")
    try:
        with _connection(duckdb, source) as connection, _local(source) as path, progress("reading"):
            return _plain(connection.sql(_query(path, sql, connection)).to_arrow_table(), source or "the query")
    except duckdb.Error as error:
        raise DataError(f"cannot read {source or 'the query'}: {_first_line(error)}") from error


@contextmanager
def _connection(duckdb: Any, source: str | None) -> Iterator[Any]:
    database = ":memory:"
    if source is not None and source.startswith(DATABASE):
        database = _database_path(source)
        if not Path(database).is_file():
            raise StorageError(f"no database {database}; check the path in {source}")
    connection = duckdb.connect(database, read_only=database != ":memory:")
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def _local(source: str | None) -> Iterator[str | None]:
    """The source itself; of standard input a temporary copy, since Parquet is read from its end."""
    if source != STANDARD_INPUT:
        yield source
        return
    if sys.stdin.isatty():
        raise DataError("standard input is the keyboard: pipe data into it, or name a file instead of -")
    with tempfile.TemporaryDirectory(prefix="mbct-") as folder:
        copy = Path(folder) / "stdin"
        with copy.open("wb") as handle:
            # One system call at a time: a larger read would not look at Ctrl-C until it is full.
            while block := os.read(sys.stdin.fileno(), _BLOCK):
                handle.write(block)
        if copy.stat().st_size == 0:
            raise DataError("standard input is empty: CSV with a header or Parquet is expected")
        yield str(copy.rename(copy.with_name(f"stdin{_sniffed(copy)}")))


def _query(path: str | None, sql: str | None, connection: Any) -> str:
    if path is None:
        return str(sql)
    if not path.startswith(DATABASE):
        relation = _reader(path)
    else:
        tables = parse_qs(urlsplit(path).query).get("table", [])
        if sql is not None and not tables:
            return sql
        relation = _quoted_table(tables[0] if tables else _only_table(connection, path))
    return f"SELECT * FROM {relation}" if sql is None else f"WITH {VIEW} AS (SELECT * FROM {relation}) {sql}"


def _reader(path: str) -> str:
    """The DuckDB table function that reads a path or glob."""
    is_glob = any(sign in path for sign in "*?[")
    if "://" not in path and not is_glob and not Path(path).is_file():
        fault = "is a folder: name its files, for example" if Path(path).is_dir() else "does not exist: check the path"
        raise StorageError(f"{path} {fault}" + (f" '{path}/*.parquet'" if Path(path).is_dir() else ""))
    suffix = Path(path.removesuffix(".gz").removesuffix(".zst")).suffix.lower()
    function = _READERS.get(suffix)
    if function is None:
        function = "read_parquet" if not is_glob and "://" not in path and _sniffed(Path(path)) == ".parquet" else None
    if function is None:
        raise DataError(f"cannot tell what {path} is: name it .parquet or .csv (or .csv.gz), or query it with --sql")
    options = ", sample_size = -1, header = true" if function == "read_csv" else ""
    return f"{function}({_text(path)}{options})"


def _sniffed(path: Path) -> str:
    """The ending that a file's first bytes deserve."""
    with path.open("rb") as handle:
        start = handle.read(4)
    return next((ending for magic, ending in _MAGIC.items() if start.startswith(magic)), ".csv")


def _database_path(source: str) -> str:
    # duckdb:///clicks.db is relative, duckdb:////tmp/clicks.db absolute, as in SQLAlchemy.
    parts = urlsplit(source)
    return unquote(parts.netloc + parts.path.removeprefix("/"))


def _only_table(connection: Any, source: str) -> str:
    names = [row[0] for row in connection.sql("SELECT table_name FROM information_schema.tables").fetchall()]
    if len(names) != 1:
        listed = ", ".join(sorted(names)) or "none"
        raise DataError(f"which table of {source}? add ?table=name; there are: {listed}")
    return str(names[0])


def _quoted_table(name: str) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _plain(table: Any, source: str) -> Any:
    """The table with decimals as floats; refuses an empty one."""
    import pyarrow as pa

    if table.num_rows == 0:
        raise DataError(f"{source} has no rows")
    if len(set(table.column_names)) < len(table.column_names):
        twice = next(name for name in table.column_names if table.column_names.count(name) > 1)
        raise DataError(f"{source} has two columns called {twice!r}: rename one with --sql")
    fields = [field.with_type(pa.float64()) if pa.types.is_decimal(field.type) else field for field in table.schema]
    return table.cast(pa.schema(fields))


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def _duckdb() -> Any:
    try:
        import duckdb
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("reading data needs DuckDB and pyarrow: pip install 'mbct[cli]'") from error
    return duckdb
