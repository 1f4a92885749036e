import contextlib
import re
import sqlite3
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import binary_tree, random_model, random_rows, reference, table_model, wide_model
from mbct.errors import ParameterError
from mbct.export import export_model
from mbct.export.sql import DIALECTS
from mbct.model.bins import FeatureBins, NumberBins
from mbct.model.ensemble import CalibrationEnsemble
from sql_tables import as_text, as_tuples, create_table


def deepest_case(sql: str) -> int:
    depth = deepest = 0
    for word in sql.split():
        depth += (word == "CASE") - (word.rstrip("),;") == "END")
        deepest = max(deepest, depth)
    return deepest


@given(st.integers(0, 2**32 - 1), st.integers(2, 4))
@settings(deadline=None, max_examples=40)
def test_flat_cases_below_the_deepest_level_mean_the_same(seed: int, max_depth: int) -> None:
    """What SQL Server needs beyond ten levels, tried in SQLite with fewer."""
    model = random_model(seed, n_features=7, n_trees=2)
    rows = random_rows(seed, model, 60, infinite=True)
    with pytest.MonkeyPatch.context() as patch, contextlib.closing(sqlite3.connect(":memory:")) as connection:
        patch.setitem(DIALECTS, "sqlite", replace(DIALECTS["sqlite"], max_case_depth=max_depth))
        sql = str(export_model(model, "sql", dialect="sqlite"))
        assert deepest_case(sql) <= max_depth
        connection.execute(create_table(model, "sqlite"))
        values = [tuple(map(as_text, row)) for row in as_tuples(model, rows)]
        connection.executemany(f"INSERT INTO predictions VALUES ({', '.join('?' * len(values[0]))})", values)
        got = [row[0] for row in connection.execute(f"SELECT {sql} FROM predictions ORDER BY row_number")]
    np.testing.assert_allclose(got, reference(model, rows), rtol=1e-12, atol=1e-12)


def test_sql_server_is_never_nested_deeper_than_it_allows() -> None:
    for seed in range(20):
        model = random_model(seed, n_features=7, n_trees=4)
        assert deepest_case(str(export_model(model, "sql", dialect="sqlserver"))) <= 10


def test_a_column_that_is_absent_is_an_error_in_sqlite() -> None:
    sql = export_model(random_model(1, n_features=1), "sql", dialect="sqlite")
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE predictions (other REAL)")
        with pytest.raises(sqlite3.OperationalError, match="no such column"):
            connection.execute(f"SELECT {sql} FROM predictions")


def test_tables_views_outputs_and_columns_can_be_named() -> None:
    model = random_model(2, n_features=1)
    options: dict[str, Any] = {
        "table": "shop.clicks",
        "view": ["shop", "a.b"],
        "output": "p",
        "columns": {"score": "P"},
    }
    sql = str(export_model(model, "sql", form="view", **options))
    assert sql.startswith('CREATE OR REPLACE VIEW "shop"."a.b" AS\n')
    assert '"score"' not in sql
    assert 'AS "p"\nFROM "shop"."clicks"\n' in sql


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "table"}, "form='table' must be one of expression, select, view"),
        ({"form": "select", "table": ""}, "table='' is no name"),
        ({"form": "view", "view": "a."}, "view='a.' is no name"),
        ({"columns": {"prise": "x"}}, r"columns names \['prise'\], but the features are"),
    ],
)
def test_options_that_make_no_sense_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        export_model(random_model(1), "sql", **options)


def test_equal_models_give_equal_text() -> None:
    for dialect in DIALECTS:
        texts = {export_model(random_model(5, n_features=7), "sql", dialect=dialect, form="view") for _ in range(2)}
        assert len(texts) == 1


def test_what_an_engine_would_not_compile_is_refused_with_its_size_and_the_alternative() -> None:
    small = wide_model(1, n_trees=4, n_leaves=32, n_values=20)
    binary = small.with_trees(small.trees * 100)
    for form in ("expression", "view", "tables", "auto"):
        with pytest.raises(ParameterError, match=r"12,800 leaves of .*trees .*as CASE .* model_size='rules'"):
            export_model(binary, "sql", form=form)
    tables = table_model(1, "linear", n_groups=90)
    with pytest.raises(ParameterError, match=r"(?s)leaves of 16 trees as CASE .* use form='tables', which joins them"):
        export_model(tables, "sql", form="view")
    with pytest.raises(ParameterError, match="form='tables' is for duckdb, postgres, spark, sqlite; for mysql use"):
        export_model(tables, "sql", dialect="mysql", form="tables")
    assert "CREATE TABLE" in str(export_model(tables, "sql", form="auto"))


def test_trees_of_few_leaves_are_cases_on_joined_codes_and_large_ones_arrays() -> None:
    script = str(export_model(table_model(1, n_tables=1, n_groups=90, n_binary=2), "sql", form="auto"))
    view = script[script.index("CREATE OR REPLACE VIEW") :]
    assert view.count('"arrays"."array_') == 1
    assert len(re.findall(r'WHEN \("feature_\d"\."bits_\d" & \d+\) <> 0 THEN', view)) > 5
    assert view.count("JOIN") == len(re.findall(r'"feature_\d" ON', view)) + 1, "a join a feature, and the arrays"
    few = wide_model(1, n_trees=4, n_leaves=16, n_values=20)
    assert str(export_model(few, "sql", form="auto")).startswith("CREATE OR REPLACE VIEW")


def test_a_model_of_more_features_than_an_engine_joins_is_refused() -> None:
    bins = FeatureBins(tuple(NumberBins(f"x{j}", (0.0, 1.0)) for j in range(70)))
    tree = binary_tree(np.random.default_rng(1), bins, "odds", 300)
    model = CalibrationEnsemble("x0", "odds", bins, (tree,))
    with pytest.raises(ParameterError, match=r"needs \d+ joins, more than sqlite takes \(at most 60\)"):
        export_model(model, "sql", dialect="sqlite", form="tables")
    assert "CREATE VIEW" in str(export_model(model, "sql", dialect="sqlite", form="auto"))


def test_tables_are_called_after_the_view() -> None:
    script = str(export_model(table_model(1, n_tables=2), "sql", form="tables", view="shop.fair"))
    assert 'CREATE TABLE "shop"."fair_arrays" AS' in script
    assert script.index("DROP VIEW") < script.index("DROP TABLE") < script.index("CREATE OR REPLACE VIEW")
