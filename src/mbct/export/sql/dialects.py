"""How nine SQL engines write names and values: quoting, escapes, casts, NaN and the depth that they bear."""

from collections.abc import Sequence
from dataclasses import dataclass

from mbct.errors import ParameterError

Replacements = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Dialect:
    """What differs between engines, as templates.

    Casts (``as_…``) take a column, ``is_nan`` takes a double, the literals (``date``, ``moment`` without an
    offset from UTC, ``zoned_moment`` with one) take a quoted string. None says that the engine has no such value.
    Escapes are replaced in their order; ``backslash_string`` is for values with a backslash, where that needs
    another kind of literal. ``nul`` is the operator and the call that join U+0000 to a string, where no escape
    says it. ``suffix`` is appended to the text literals where ``as_text`` appends it to the column.
    """

    name: str
    quotes: str
    as_double: str
    as_text: str
    number: str = "{}"
    known_double: str = ""
    """A cheaper ``as_double`` for where missing values were excluded before."""
    plain_exponent: bool = False
    """Whether a number without an exponent is a decimal, so that each literal needs one."""
    is_nan: str | None = None
    infinity: str | None = None
    identifier_escapes: Replacements = ()
    string: str = "'{}'"
    string_escapes: Replacements = (("'", "''"),)
    backslash_string: str | None = None
    hex_string: str | None = None
    hex_signs: tuple[str, ...] = ()
    """Values with one of these signs are written by their bytes: the mode of a session changes what escapes mean."""
    casts_any: bool = False
    """Whether ``as_double`` takes a column of any type, so that numbers that arrive as text compare as numbers."""
    nul: str | None = None
    suffix: str = ""
    as_date: str = "{}"
    date: str = "DATE {}"
    as_moment: str = "{}"
    moment: str = "TIMESTAMP {}"
    zoned_moment: str = "TIMESTAMP {}"
    clip: str = "GREATEST({low}, LEAST({high}, {value}))"
    bit_test: str = "({} & {}) <> 0"
    values_table: str = "(VALUES{rows}) AS {alias} ({columns})"
    values_row: str = "({})"
    column_types: tuple[str, str] = ("", "")
    """Types of text and of whole numbers, where ``values_table`` must name them."""
    create_view: str = "CREATE OR REPLACE VIEW {name} AS\n{query}"
    materialized: str = ""
    """What keeps a common table expression from being written into the query that names it."""
    max_case_depth: int | None = None
    """Deepest nesting of CASE that the engine takes."""
    most_case_leaves: int = 10_000
    """Leaves of CASE expressions that the engine compiles in some seconds."""
    most_joins: int = 120
    rows_table: tuple[str, ...] = ()
    """Statements that create a table of rows; none where the form "tables" was not tried."""
    array_item: str = ""
    """One number of an array by its place, from 0 on: of a literal, of a column of lists, or of a table of places."""
    array_column: str = ""
    """An array as a column of a table with one row."""
    array_table: tuple[str, ...] = ()
    """Statements that create the table of all arrays, where they are no literals."""
    array_join: str = ""
    array_types: tuple[str, str] = ("INTEGER", "DOUBLE")

    def identifier(self, name: str) -> str:
        """A name, quoted so that it can be nothing else.

        >>> print(DIALECTS["sqlserver"].identifier("a]b"), DIALECTS["duckdb"].identifier('a"b'))
        [a]]b] "a""b"
        """
        first, last = self.quotes[0], self.quotes[-1]
        escapes = self.identifier_escapes or ((last, last * 2),)
        return first + _replaced(name, escapes) + last

    def text(self, value: str) -> str | None:
        r"""A string literal; None where no text of this engine can equal the value.

        >>> print(DIALECTS["mysql"].text("O'Hare\\"), DIALECTS["postgres"].text("O'Hare"))
        x'4f27486172655c' 'O''Hare'
        """
        if self.hex_string is not None and any(sign in value for sign in self.hex_signs):
            return self.hex_string.format(value.encode().hex())
        if "\0" in value and not any(old == "\0" for old, _ in self.string_escapes):
            if self.nul is None:
                return None
            operator, character = self.nul.split(" ", 1)
            parts = [self.text(part) for part in value.split("\0")]
            return "(" + f" {operator} {character} {operator} ".join(map(str, parts)) + ")"
        template = self.backslash_string if self.backslash_string and "\\" in value else self.string
        escapes = (("\\", "\\\\"), *self.string_escapes) if template == self.backslash_string else self.string_escapes
        return template.format(_replaced(value, escapes))

    def create_rows(self, name: str, columns: str, rows: Sequence[str]) -> list[str]:
        """Statements that create a table of rows."""
        parts = {"name": name, "columns": columns, "rows": ",\n  ".join(rows)}
        return [f"DROP TABLE IF EXISTS {name}", *(statement.format(**parts) for statement in self.rows_table)]

    def double(self, value: float) -> str:
        """A literal of type double, exact to the last bit."""
        digits = repr(float(value))
        if self.plain_exponent and "e" not in digits:
            digits += "e0"
        return self.number.format(digits)


def _replaced(text: str, replacements: Replacements) -> str:
    for old, new in replacements:
        text = text.replace(old, new)
    return text


_BACKSLASH = ("\\", "\\\\")
_IN_BACKTICKS = (_BACKSLASH, ("`", "\\`"))

# Timestamps with a zone are those of UTC, whatever the zone of the session; text that is no date equals none.
_IN_UTC_DUCKDB = (
    "CASE WHEN typeof({0}) = 'TIMESTAMP WITH TIME ZONE' THEN timezone('UTC', TRY_CAST({0} AS TIMESTAMPTZ)) "
    "ELSE TRY_CAST({0} AS TIMESTAMP) END"
)
_IN_UTC_POSTGRES = (
    "CASE WHEN pg_typeof({0}) = 'timestamptz'::regtype THEN CAST({0} AS TIMESTAMPTZ) AT TIME ZONE 'UTC' "
    "ELSE CAST({0} AS TIMESTAMP) END"
)
_IN_UTC_SPARK = (
    "CASE WHEN typeof({0}) = 'timestamp' "
    "THEN convert_timezone(current_timezone(), 'UTC', TRY_CAST({0} AS TIMESTAMP_NTZ)) "
    "ELSE TRY_CAST({0} AS TIMESTAMP_NTZ) END"
)

_ROWS_TABLE = "CREATE TABLE {name} AS SELECT * FROM (VALUES\n  {rows}) AS t ({columns})"

_ALL = (
    Dialect(
        name="duckdb",
        quotes='"',
        # DuckDB takes a Parquet column for free of NaN when its statistics, which never count NaN, hold none, and then
        # decides tests and comparisons without looking; it does not see through an exponential, nor this CASE.
        as_double="CASE WHEN NOT isnan(exp(-abs(TRY_CAST({0} AS DOUBLE)))) THEN TRY_CAST({0} AS DOUBLE) END",
        known_double="TRY_CAST({} AS DOUBLE)",
        casts_any=True,
        materialized="MATERIALIZED ",
        as_text="CAST({} AS VARCHAR)",
        plain_exponent=True,
        is_nan="{} IS NULL",
        infinity="CAST('inf' AS DOUBLE)",
        nul="|| chr(0)",
        as_date=_IN_UTC_DUCKDB,
        date="TIMESTAMP {}",
        as_moment=_IN_UTC_DUCKDB,
        zoned_moment="TIMESTAMPTZ {}",
        rows_table=(_ROWS_TABLE,),
        # A list of the plan itself would be copied for every 2,048 rows.
        array_item="{arrays}.{array}[{place} + 1]",
        array_column="CAST('[{values}]' AS {kind}[]) AS {array}",
        array_table=("CREATE TABLE {name} AS SELECT\n  {columns}",),
        array_join="CROSS JOIN {name} AS {arrays}",
    ),
    Dialect(
        name="postgres",
        quotes='"',
        materialized="MATERIALIZED ",
        as_double="CAST({} AS DOUBLE PRECISION)",
        as_text="CAST({} AS TEXT)",
        number="{}::float8",
        is_nan="{} = 'NaN'::float8",
        infinity="'Infinity'::float8",
        backslash_string="E'{}'",
        as_date=_IN_UTC_POSTGRES,
        date="TIMESTAMP {}",
        as_moment=_IN_UTC_POSTGRES,
        zoned_moment="TIMESTAMPTZ {}",
        rows_table=(_ROWS_TABLE, "ANALYZE {name}"),
        # A column of arrays would be decompressed for every row.
        array_item="(CAST('{{{values}}}' AS {kind}[]))[{place} + 1]",
        array_types=("INTEGER", "FLOAT8"),
    ),
    Dialect(
        name="spark",
        quotes="`",
        as_double="TRY_CAST({} AS DOUBLE)",
        casts_any=True,
        as_text="CAST({} AS STRING)",
        number="{}D",
        is_nan="isnan({})",
        infinity="CAST('Infinity' AS DOUBLE)",
        # Spark replaces ${name} in the text of a statement before it is parsed, and escapedStringLiterals turns escapes
        # off.
        hex_string="CAST(X'{}' AS STRING)",
        hex_signs=("\\", "'", "\0", "${"),
        as_date=_IN_UTC_SPARK,
        date="TIMESTAMP_NTZ {}",
        as_moment=_IN_UTC_SPARK,
        moment="TIMESTAMP_NTZ {}",
        rows_table=("CREATE TABLE {name} USING parquet AS SELECT * FROM VALUES\n  {rows} AS t ({columns})",),
        array_item="CAST(split('{values}', ',') AS ARRAY<{kind}>)[{place}]",
    ),
    Dialect(
        name="bigquery",
        quotes="`",
        as_double="CAST({} AS FLOAT64)",
        as_text="CAST({} AS STRING)",
        is_nan="IS_NAN({})",
        infinity="CAST('inf' AS FLOAT64)",
        identifier_escapes=_IN_BACKTICKS,
        string_escapes=(_BACKSLASH, ("'", "\\'"), ("\0", "\\000"), ("\n", "\\n"), ("\r", "\\r")),
        moment="DATETIME {}",
        values_table="UNNEST(ARRAY<STRUCT<{typed}>>[{rows}]) AS {alias}",
        column_types=("STRING", "INT64"),
    ),
    Dialect(
        name="snowflake",
        quotes='"',
        as_double="CAST({} AS DOUBLE)",
        as_text="CAST({} AS VARCHAR)",
        number="{}::DOUBLE",
        is_nan="{} = 'NaN'::DOUBLE",
        infinity="'inf'::DOUBLE",
        string_escapes=(_BACKSLASH, ("'", "''"), ("\0", "\\x00")),
        zoned_moment="CAST({} AS TIMESTAMP_TZ)",
        bit_test="BITAND({}, {}) <> 0",
    ),
    Dialect(
        name="clickhouse",
        quotes="`",
        as_double="toFloat64({})",
        as_text="toString({})",
        is_nan="isNaN({})",
        infinity="inf",
        identifier_escapes=_IN_BACKTICKS,
        string_escapes=(_BACKSLASH, ("'", "''"), ("\0", "\\x00")),
        as_date="toDate32({})",
        date="toDate32({})",
        as_moment="toDateTime64({}, 6)",
        moment="toDateTime64({}, 6)",
        zoned_moment="parseDateTime64BestEffort({}, 6)",
        bit_test="bitAnd({}, {}) <> 0",
        values_table="VALUES('{typed}', {rows}) AS {alias}",
        column_types=("String", "Int64"),
    ),
    Dialect(
        name="mysql",
        quotes="`",
        as_double="({} + 0e0)",
        # Bytes, because every usual collation takes 'a' for 'A' and most take 'a' for 'a '.
        as_text="CAST(CONVERT({} USING utf8mb4) AS BINARY)",
        plain_exponent=True,
        # NO_BACKSLASH_ESCAPES turns escapes off.
        hex_string="x'{}'",
        hex_signs=("\\", "\0"),
        values_row="ROW({})",
    ),
    Dialect(
        name="sqlserver",
        quotes="[]",
        as_double="CAST({} AS FLOAT)",
        # A binary collation tells 'a' from 'A'; the final point tells 'a' from 'a ', which no collation does.
        as_text="(CAST({} AS NVARCHAR(MAX)) + N'.') COLLATE Latin1_General_100_BIN2",
        suffix=".",
        plain_exponent=True,
        string="N'{}'",
        nul="+ NCHAR(0)",
        date="CAST({} AS DATE)",
        moment="CAST({} AS DATETIME2)",
        zoned_moment="CAST({} AS DATETIMEOFFSET)",
        # GREATEST and LEAST came with the version of 2022.
        clip="(SELECT CASE WHEN v < {low} THEN {low} WHEN v > {high} THEN {high} ELSE v END "
        "FROM (SELECT {value} AS v) AS bounded)",
        create_view="CREATE OR ALTER VIEW {name} AS\n{query}",
        max_case_depth=10,
    ),
    Dialect(
        name="sqlite",
        most_joins=60,  # it joins 64 tables
        # A name in double quotes that is no column would silently become a string.
        quotes="`",
        # A table imported from CSV holds texts, of which a cast makes 0 where they are empty or no number.
        as_double="CASE WHEN typeof({0}) <> 'text' OR {0} GLOB '*[0-9]*' THEN CAST({0} AS REAL) END",
        known_double="CAST({} AS REAL)",
        as_text="CAST({} AS TEXT) COLLATE BINARY",
        is_nan="{} IS NULL",
        infinity="9e999",
        nul="|| char(0)",
        date="{}",
        moment="{}",
        zoned_moment="{}",
        clip="MAX({low}, MIN({high}, {value}))",
        values_table="(SELECT {numbered} FROM (VALUES{rows})) AS {alias}",
        create_view="CREATE VIEW {name} AS\n{query}",
        rows_table=(
            "CREATE TABLE {name} ({columns}, PRIMARY KEY (`key`)) WITHOUT ROWID",
            "INSERT INTO {name} VALUES\n  {rows}",
        ),
        array_item="(SELECT `value` FROM {name} WHERE `place` = {first} + {place})",
        array_table=(
            "CREATE TABLE {name} (`place` INTEGER PRIMARY KEY, `value`)",
            "INSERT INTO {name} SELECT key, value FROM json_each('[{values}]')",
        ),
        # Its parser has a stack of 100, which overflows from 14 nested CASE on.
        max_case_depth=10,
    ),
)

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in _ALL}
_ALSO = {"postgresql": "postgres", "tsql": "sqlserver", "mssql": "sqlserver", "databricks": "spark"}


def dialect_of(name: str) -> Dialect:
    """The dialect called ``name``."""
    found = DIALECTS.get(_ALSO.get(name.lower(), name.lower()))
    if found is None:
        raise ParameterError(f"unknown SQL dialect {name!r}; available are {', '.join(DIALECTS)}")
    return found
