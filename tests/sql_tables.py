"""Random rows as typed tables of real engines, for tests of exported SQL."""

import datetime
from typing import Any

from mbct.export.sql import DIALECTS
from mbct.model.ensemble import CalibrationEnsemble

TYPES = {
    "duckdb": ("DOUBLE", "VARCHAR", "BIGINT", "BOOLEAN", "DATE", "TIMESTAMP"),
    "postgres": ("DOUBLE PRECISION", "TEXT", "BIGINT", "BOOLEAN", "DATE", "TIMESTAMP"),
    "sqlite": ("REAL", "TEXT", "INTEGER", "INTEGER", "TEXT", "TEXT"),
}
_KINDS = ("number", "string", "integer", "boolean", "date", "datetime")


def create_table(model: CalibrationEnsemble, dialect: str) -> str:
    """A table ``predictions`` with a column of the trained type for each feature, and the number of the row."""
    type_of = dict(zip(_KINDS, TYPES[dialect], strict=True))
    quoted = DIALECTS[dialect].identifier
    columns = [f"{quoted(f.name)} {type_of[getattr(f, 'value_type', 'number')]}" for f in model.bins]
    return f"CREATE TABLE predictions (row_number INTEGER, {', '.join(columns)})"


def as_tuples(model: CalibrationEnsemble, rows: dict[str, list[Any]]) -> list[tuple[Any, ...]]:
    """Rows of the table."""
    names = model.bins.names
    return [(i, *(rows[name][i] for name in names)) for i in range(len(rows[model.score_column]))]


def as_text(value: Any) -> Any:
    """Dates as SQLite keeps them."""
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, datetime.date) else value
