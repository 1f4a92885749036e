"""Where rows come from: files, globs, standard input, DuckDB databases and SQL, read in place by DuckDB."""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mbct.data.engines.duckdb_files import (
    DATABASE,
    connect,
    ending_by_content,
    first_line,
    import_duckdb,
    is_text,
    quoted,
    reading,
    reading_text,
    table_of,
    text,
)
from mbct.errors import DataError
from mbct.progress import progress

if TYPE_CHECKING:
    from mbct.data.source import LazySource

STANDARD_INPUT = "-"
VIEW = "data"
"""Name of the source inside ``--sql``."""
_BLOCK = 1 << 20
_BATCH_ROWS = 200_000
_NUMBERS = "mbct_numbers"  # Name, inside a query, of the numbers of a CSV file beside their spelling
_DECIMALS = ("decimal", "hugeint", "uhugeint")


@dataclass(frozen=True)
class Data:
    """Rows in an embedded DuckDB, which reads them when asked; ``name`` is what messages call them."""

    relation: Any
    name: str
    spelled: Any = None
    """The rows of a CSV file with every value as it is spelled there; None where that was not asked for."""

    @property
    def names(self) -> list[str]:
        """Column names."""
        return list(self.relation.columns)

    @property
    def types(self) -> dict[str, Any]:
        """DuckDB's type of each column."""
        return dict(zip(self.relation.columns, self.relation.types, strict=True))

    def require(self, names: Sequence[str]) -> None:
        """Raise unless every name is a column."""
        missing = [name for name in names if name not in self.names]
        if missing:
            raise DataError(f"no column {missing[0]!r}; the data has {', '.join(self.names)}")

    def count(self) -> int:
        """Number of rows; raises where there is none."""
        n_rows = int(self.relation.aggregate("count(*)").fetchall()[0][0])
        if n_rows == 0:
            raise DataError(f"{self.name} has no rows")
        return n_rows

    def each(self, aggregate: str, names: Sequence[str]) -> dict[str, Any]:
        """An SQL aggregate of each column, which it calls ``{}``, by one query."""
        if not names:
            return {}
        wanted = ", ".join(aggregate.replace("{}", quoted(name)) for name in names)
        return dict(zip(names, self.relation.aggregate(wanted).fetchall()[0], strict=True))

    def table(self, names: Sequence[str] | None = None) -> Any:
        """All rows in memory, with the columns called ``names``, as an Arrow table."""
        with progress("reading"):
            table = self._plain(names).to_arrow_table()
        if table.num_rows == 0:
            raise DataError(f"{self.name} has no rows")
        return table

    def first(self, n_rows: int, names: Sequence[str]) -> Any:
        """The columns called ``names`` of the first rows, as an Arrow table."""
        return self._plain(names).limit(n_rows).to_arrow_table()

    def sample(self, n_rows: int, names: Sequence[str]) -> Any:
        """The columns called ``names`` of at most ``n_rows`` rows spread over all, as an Arrow table."""
        step = max(1, -(-self.count() // n_rows))
        if step == 1:
            return self.table(names)
        chosen = ", ".join(map(quoted, names))
        numbered = self._plain(names).project(f"{chosen}, row_number() OVER () AS mbct_row")
        return numbered.filter(f"mbct_row % {step} = 0").project(chosen).to_arrow_table()

    def period(self, name: str) -> tuple[str, str]:
        """The first and the last day, or number, of a column of times."""
        number = self.types[name].id not in ("varchar", "date") and not self.types[name].id.startswith("timestamp")
        column = quoted(name) if number else self.day(name)
        first, last = self.relation.aggregate(f"min({column})::VARCHAR, max({column})::VARCHAR").fetchall()[0]
        return first, last

    def day(self, name: str) -> str:
        """SQL of the day of a column of dates or timestamps, which is NULL where it cannot be read."""
        column = quoted(name)
        if self.types[name].id == "varchar":
            column = f"regexp_replace({column}, '^\\s*(\\d{{4}})[/.](\\d{{1,2}})[/.]', '\\1-\\2-')"
        return f"TRY_CAST({column} AS DATE)"

    def values(self, name: str, most: int) -> list[str]:
        """The values of a column as texts, sorted, at most so many of them; missing ones are no value."""
        column = quoted(name)
        distinct = self.relation.filter(f"{column} IS NOT NULL").project(f"{column}::VARCHAR AS value").distinct()
        return [value for (value,) in distinct.order("value").limit(most).fetchall()]

    def holds(self, name: str, value: str) -> bool:
        """Whether a column has this value, compared as text."""
        return bool(self.each(f"bool_or({{}}::VARCHAR = {text(value)})", [name])[name])

    def with_text(self, name: str) -> "Data":
        """The same rows, with a column's values as texts."""
        column = quoted(name)
        return Data(self.relation.project(f"* REPLACE ({column}::VARCHAR AS {column})"), self.name)

    def with_binary(self, name: str, positive: str) -> "Data":
        """The same rows, with 1 in place of ``positive`` in a column and 0 in place of other values."""
        import narwhals.stable.v2 as nw

        from mbct.data.engines.engine import lazy
        from mbct.data.rows import is_value

        replaced = is_value(nw.col(name).cast(nw.String), positive).alias(name)
        return Data(lazy(self.relation).with_columns(replaced).to_native(), self.name)

    def source(self, names: Sequence[str]) -> "LazySource":
        """The rows for :mod:`mbct.data`, with the columns called ``names``."""
        from mbct.data.engines.duckdb import DuckDBEngine
        from mbct.data.engines.engine import lazy
        from mbct.data.source import LazySource

        return LazySource(DuckDBEngine(self.relation), lazy(self._plain(names)))

    def batches(self, names: Sequence[str] | None = None) -> Iterator[Any]:
        """Arrow tables of some rows each, in the order of the rows, while DuckDB is still reading.

        Without ``names``, all columns as they are.
        """
        import pyarrow as pa

        chosen = self.relation if names is None else self._plain(names)
        read = getattr(chosen, "to_arrow_reader", None) or chosen.fetch_record_batch
        for batch in read(_BATCH_ROWS):
            yield pa.Table.from_batches([batch])

    def as_spelled(self) -> Iterator[tuple[Any, Any]]:
        """Pairs of Arrow tables of the same rows: as the file spells them, and with numbers as numbers."""
        if self.spelled is None:
            yield from ((table, table) for table in self.batches())
            return
        numbers = {name: kind for name, kind in self.types.items() if kind.id != "varchar"}
        cast = ", ".join(f"{quoted(name)} := CAST({quoted(name)} AS {kind})" for name, kind in numbers.items())
        for table in Data(self.spelled.project(f"*, struct_pack({cast}) AS {_NUMBERS}"), self.name).batches():
            spelled = typed = table.drop_columns(_NUMBERS)
            values = table.column(_NUMBERS).combine_chunks()
            for name in numbers:
                typed = typed.set_column(typed.column_names.index(name), name, values.field(name))
            yield spelled, typed

    def _plain(self, names: Sequence[str] | None) -> Any:
        """The columns called ``names``, with decimals as doubles."""
        types = self.types
        chosen = self.names if names is None else names
        listed = ", ".join(
            f"CAST({quoted(name)} AS DOUBLE) AS {quoted(name)}" if types[name].id in _DECIMALS else quoted(name)
            for name in chosen
        )
        return self.relation.project(listed)


@contextmanager
def open_data(
    source: str | None,
    sql: str | None = None,
    *,
    once: bool = False,
    spelled: bool = False,
    memory_limit: str | None = None,
) -> Iterator[Data]:
    """Rows of ``source``, read when they are asked for; ``sql`` is run on it under the name ``data``.

    Without a source, ``sql`` names its own files, for example ``SELECT * FROM 'clicks.parquet'``. What would have to
    be parsed or computed again for every question is kept by DuckDB, which spills to disk beyond ``memory_limit``,
    unless the rows are read ``once`` only; ``spelled`` asks for the text of a CSV file too.
    """
    duckdb = import_duckdb()
    wrong_query = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException, duckdb.SyntaxException)
    if source is None and sql is None:
        raise DataError("no data given: name a file, - for standard input, or a query with --sql")
    name = source or "the query"
    try:
        with _local(source) as path, closing(connect(path, memory_limit=memory_limit)) as connection:
            relation = connection.sql(_query(connection, path, sql))
            _refuse_equal_names(relation.columns, name)
            is_csv = sql is None and path is not None and is_text(path)
            if not once and (sql is not None or is_csv):
                relation = _kept(connection, relation)
            texts = connection.sql(f"SELECT * FROM {reading_text(str(path))}") if spelled and is_csv else None
            yield Data(relation, name, texts)
    except duckdb.Error as error:
        if sql is not None and isinstance(error, wrong_query):
            raise DataError(f"the query of --sql is wrong: {first_line(error)}") from error
        raise DataError(f"cannot read {name}: {first_line(error)}") from error


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
        yield str(copy.rename(copy.with_name(f"stdin{ending_by_content(copy)}")))


def _query(connection: Any, path: str | None, sql: str | None) -> str:
    if path is None or (sql is not None and path.startswith(DATABASE) and table_of(path) is None):
        return str(sql)
    rows = f"SELECT * FROM {reading(connection, path)}"
    return rows if sql is None else f"WITH {VIEW} AS ({rows}) {sql}"


def _refuse_equal_names(names: Sequence[str], source: str) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{source} has two columns called {twice!r}: rename one with --sql")


def _kept(connection: Any, relation: Any) -> Any:
    with progress("reading"):
        relation.query("mbct_rows", "CREATE TEMP TABLE mbct_kept AS SELECT * FROM mbct_rows")
    return connection.sql("SELECT * FROM temp.mbct_kept")
