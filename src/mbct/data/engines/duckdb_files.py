"""Files and databases as DuckDB reads them: what a path needs, and an embedded DuckDB to run it."""

import tempfile
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from mbct.errors import DataError, ParameterError, StorageError
from mbct.lazy import optional

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
