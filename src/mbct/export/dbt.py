"""A dbt package: a macro that calibrates any relation, and for large trees the tables that it joins, as models."""

import re
from collections.abc import Mapping

from mbct.errors import ParameterError
from mbct.export.sql.dialects import dialect_of
from mbct.export.sql.statement import query_and_tables
from mbct.export.sql.tables import worth_joining
from mbct.model.ensemble import CalibrationEnsemble

_MARK = "\0"
"""Stands before what becomes Jinja: SQL holds no such character."""
_WITH_TABLES = ("duckdb", "postgres", "spark")
"""Dialects whose tables are one query each, as dbt wants its models."""


def to_dbt(
    model: CalibrationEnsemble,
    dialect: str = "duckdb",
    *,
    package: str = "mbct_calibration",
    output: str = "calibrated",
    columns: Mapping[str, str] | None = None,
    interval: bool = False,
) -> dict[str, str]:
    """Files of a package whose macro ``calibrate(relation)`` selects all columns and the calibrated prediction.

    A model of the project is then ``{{ mbct_calibration.calibrate(ref("predictions")) }}``. The options are those of
    :func:`~mbct.export.sql.to_sql`; ``package`` names the package.
    """
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", package):
        raise ParameterError(f"package={package!r} must be small letters, digits and _, as in 'click_calibration'")
    found = dialect_of(dialect)
    tables_name = [f"{_MARK}{package}"] if dialect in _WITH_TABLES and worth_joining(model, found) else None
    query, creates = query_and_tables(
        model, found, f"{_MARK}relation", tables_name, output=output, columns=columns, interval=interval
    )
    opening, closing = map(re.escape, (found.quotes[0], found.quotes[-1]))
    table = re.compile(rf"{opening}{_MARK}(\w+){closing}")
    macro = table.sub(rf"{{{{ ref('{package}', '\1') }}}}", _escaped(query)).replace(
        f"{_MARK}relation", "{{ relation }}"
    )
    files = {
        "dbt_project.yml": _PROJECT.format(package=package),
        "macros/calibrate.sql": f"{{% macro calibrate(relation) %}}\n{macro}{{% endmacro %}}\n",
    }
    for statement in creates:
        head, _, content = statement.partition(" AS ")
        if head.startswith("CREATE TABLE") and (name := table.search(head)):
            files[f"models/{name[1]}.sql"] = _escaped(content) + "\n"
    return files


def _escaped(sql: str) -> str:
    """SQL as Jinja writes it: a brace opens nothing, a carriage return stays one."""
    return sql.replace("{", "{{ '{' }}").replace("\r", "{{ '\\r' }}")


_PROJECT = """\
name: {package}
version: "1.0.0"
config-version: 2
models:
  {package}:
    +materialized: table
"""
