"""SQL of every dialect, read back by a parser: one statement, and no name or value other than the model's."""

from typing import Any

import pytest

from builders import AWKWARD_VALUES, one_split_model, random_model, wide_model
from mbct.errors import ModelFileError, ParameterError
from mbct.export import export_model
from mbct.export.sql import DIALECTS
from mbct.export.sql.dialects import dialect_of
from mbct.model.bins import CategoryBins
from mbct.model.ensemble import CalibrationEnsemble

sqlglot = pytest.importorskip("sqlglot", reason="sqlglot is not installed: pip install sqlglot")
PARSERS = {name: "tsql" if name == "sqlserver" else name for name in DIALECTS}


def parse(model: CalibrationEnsemble, dialect: str, form: str) -> Any:
    sql = str(export_model(model, "sql", dialect=dialect, form=form))
    if form == "expression":
        sql = f"SELECT {sql} FROM t"
    statements = sqlglot.parse(sql, dialect=PARSERS[dialect], error_level=sqlglot.ErrorLevel.RAISE)
    assert len(statements) == 1
    return statements[0]


@pytest.mark.parametrize("form", ["expression", "select", "view"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_parses(dialect: str, form: str) -> None:
    for seed in range(6):
        model = random_model(seed, ("odds", "linear")[seed % 2], n_features=7)
        statement = parse(model, dialect, form)
        assert isinstance(statement, sqlglot.exp.Create if form == "view" else sqlglot.exp.Select)
        columns = {column.name for column in statement.find_all(sqlglot.exp.Column)}
        assert columns <= {*model.bins.names, "v"}
        assert model.score_column in columns


@pytest.mark.parametrize("form", ["select", "view"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_parses_joined_tables(dialect: str, form: str) -> None:
    statement = parse(wide_model(1, n_trees=8, n_leaves=16, n_values=400), dialect, form)
    assert len(list(statement.find_all(sqlglot.exp.Join))) == 1


def _texts_of_bytes(statement: sqlglot.exp.Expression) -> set[str]:
    """Texts that are written by the hexadecimal digits of their bytes."""
    return {bytes.fromhex(literal.this).decode() for literal in statement.find_all(sqlglot.exp.HexString)}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_values_are_read_back_as_they_were(dialect: str) -> None:
    # A parser need not know all escapes: Spark's \u0024 is tried in Spark itself.
    values = tuple(value for value in AWKWARD_VALUES if "${" not in value)
    statement = parse(one_split_model(CategoryBins("text", values)), dialect, "expression")
    found = {literal.this for literal in statement.find_all(sqlglot.exp.Literal) if literal.is_string}
    found |= {literal.this for literal in statement.find_all(sqlglot.exp.National)}
    found |= {literal.this for literal in statement.find_all(sqlglot.exp.ByteString)}
    found |= _texts_of_bytes(statement)
    suffix = DIALECTS[dialect].suffix
    assert {value + suffix for value in values} <= found
    of_numbers = {"NaN", "text", "*[0-9]*"}  # in the tests for a missing prediction
    assert found <= {*(value + suffix for value in values), suffix, *of_numbers}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_names_are_read_back_as_they_were(dialect: str) -> None:
    name = "we`ird \"na]me'; DROP TABLE x; --"
    statement = parse(one_split_model(CategoryBins(name, ("a",))), dialect, "expression")
    names = {column.name for column in statement.find_all(sqlglot.exp.Column)}
    assert names <= {"score", name, name.replace("`", "\\`")}
    assert len(names) == 2


def test_other_names_of_dialects_are_understood() -> None:
    assert dialect_of("PostgreSQL") is DIALECTS["postgres"]
    assert dialect_of("tsql") is DIALECTS["sqlserver"]
    with pytest.raises(ParameterError, match="unknown SQL dialect 'oracle'; available are duckdb, postgres, spark"):
        dialect_of("oracle")


@pytest.mark.parametrize(
    ("value_type", "value", "expected"),
    [
        ("integer", "-5", "IN (-5)"),
        ("integer", "1e+22", "IN (1e+22)"),
        ("number", "0.5", "IN (0.5e0)"),
        ("number", "inf", "IN (CAST('inf' AS DOUBLE))"),
        ("number", "-inf", "IN (-CAST('inf' AS DOUBLE))"),
        ("boolean", "true", "IN ('true', 'True', 'TRUE', '1')"),
        ("date", "2024-01-02", "IN (TIMESTAMP '2024-01-02')"),
        ("datetime", "2024-01-02 03:04:05", "IN (TIMESTAMP '2024-01-02 03:04:05')"),
        ("datetime", "2024-01-02 03:04:05+00:00", "IN (TIMESTAMPTZ '2024-01-02 03:04:05+00:00')"),
    ],
)
def test_values_are_compared_in_a_type_that_every_spelling_has(value_type: Any, value: str, expected: str) -> None:
    assert expected in str(export_model(one_split_model(CategoryBins("x", (value,), value_type)), "sql"))


@pytest.mark.parametrize("value_type", ["integer", "number"])
def test_a_value_that_is_not_of_its_type_cannot_enter_a_statement(value_type: Any) -> None:
    model = one_split_model(CategoryBins("x", ("0); DROP TABLE x; --",), value_type))
    for dialect in DIALECTS:
        with pytest.raises(ModelFileError, match=f"feature 'x' is of type {value_type}, but its value"):
            export_model(model, "sql", dialect=dialect)


def test_an_infinite_value_is_left_out_where_no_column_can_hold_it() -> None:
    model = one_split_model(CategoryBins("x", ("inf", "1"), "number"))
    sql = str(export_model(model, "sql", dialect="mysql"))
    assert "inf" not in sql
    assert "1 = 0" in sql
