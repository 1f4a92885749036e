"""How one SQL engine writes names and values."""

from collections.abc import Sequence
from dataclasses import dataclass

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
    number: str
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

        >>> from mbct.export.sql.dialects import DIALECTS
        >>> print(DIALECTS["sqlserver"].identifier("a]b"), DIALECTS["duckdb"].identifier('a"b'))
        [a]]b] "a""b"
        """
        first, last = self.quotes[0], self.quotes[-1]
        escapes = self.identifier_escapes or ((last, last * 2),)
        return first + _replaced(name, escapes) + last

    def text(self, value: str) -> str | None:
        r"""A string literal; None where no text of this engine can equal the value.

        >>> from mbct.export.sql.dialects import DIALECTS
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
