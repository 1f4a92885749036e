"""Exported SQL, run for real: every engine returns what the package itself computes."""

import contextlib
import datetime
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from builders import (
    one_split_model,
    random_bins,
    random_model,
    random_rows,
    random_tree,
    reference,
    table_model,
    table_tree,
    wide_model,
)
from mbct.errors import ParameterError
from mbct.export import export_model
from mbct.export.sql import DIALECTS
from mbct.model.bins import CategoryBins, FeatureBins, NumberBins
from mbct.model.encoding import category_key
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.tree import CalibrationTree
from sql_tables import as_text, as_tuples, create_table

TOLERANCE = 1e-12
Rows = dict[str, list[Any]]
Score = Callable[[CalibrationEnsemble, Rows, str], np.ndarray[Any, Any]]
"""Runs the exported SQL of a form over rows."""

seeds = st.integers(0, 2**32 - 1)
patterns = st.sampled_from(["odds", "linear"])


def query(model: CalibrationEnsemble, dialect: str, form: str) -> tuple[str, str]:
    """What must run first, and the statement that returns the calibrated column in the order of the rows."""
    calibrated = DIALECTS[dialect].identifier("calibrated")
    sql = str(export_model(model, "sql", dialect=dialect, form=form))
    if form in ("view", "tables", "auto"):
        return sql, f"SELECT {calibrated} FROM calibrated_predictions ORDER BY row_number"
    if form == "select":
        return "", f"SELECT {calibrated} FROM ({sql}) AS scored ORDER BY row_number"
    return "", f"SELECT {sql} FROM predictions ORDER BY row_number"


def score_in_duckdb(model: CalibrationEnsemble, rows: Rows, form: str) -> np.ndarray[Any, Any]:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed: pip install 'mbct[cli]'")
    with duckdb.connect() as connection:
        connection.execute(create_table(model, "duckdb"))
        values = as_tuples(model, rows)
        connection.executemany(f"INSERT INTO predictions VALUES ({', '.join('?' * len(values[0]))})", values)
        first, then = query(model, "duckdb", form)
        if first:
            connection.execute(first)
        return np.array([row[0] for row in connection.execute(then).fetchall()], dtype=np.float64)


def score_in_sqlite(model: CalibrationEnsemble, rows: Rows, form: str) -> np.ndarray[Any, Any]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(create_table(model, "sqlite"))
        values = [tuple(map(as_text, row)) for row in as_tuples(model, rows)]
        connection.executemany(f"INSERT INTO predictions VALUES ({', '.join('?' * len(values[0]))})", values)
        first, then = query(model, "sqlite", form)
        if first:
            connection.executescript(first)
        return np.array([row[0] for row in connection.execute(then).fetchall()], dtype=np.float64)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Any]:
    """A connection to a server of our own, on a socket in a temporary folder."""
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'psycopg[binary]'")
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin")) if Path("/usr/lib/postgresql").exists() else []
    found = shutil.which("initdb")
    folder = programs[-1] if programs else Path(found).parent if found else None
    if folder is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    home = Path(tempfile.mkdtemp(prefix="mbct-pg-"))
    user = "postgres" if os.getuid() == 0 else None
    try:
        if user:
            shutil.chown(home, user)
        run = {"check": True, "user": user, "cwd": home, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        subprocess.run([folder / "initdb", "-D", home / "data", "-U", "mbct", "-A", "trust", "-E", "UTF8"], **run)
        options = f"-c listen_addresses='' -c unix_socket_directories='{home}' -c fsync=off"
        control = [folder / "pg_ctl", "-D", home / "data", "-l", home / "log", "-w"]
        subprocess.run([*control, "-o", options, "start"], **run)
        try:
            with psycopg.connect(host=str(home), user="mbct", dbname="postgres", autocommit=True) as connection:
                yield connection
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], **run)
    finally:
        shutil.rmtree(home)


def score_in_postgres(postgres: Any) -> Score:
    def score(model: CalibrationEnsemble, rows: Rows, form: str) -> np.ndarray[Any, Any]:
        postgres.execute("DROP TABLE IF EXISTS predictions CASCADE")
        postgres.execute(create_table(model, "postgres"))
        values = as_tuples(model, rows)
        with postgres.cursor() as cursor, cursor.copy("COPY predictions FROM STDIN") as copy:
            for row in values:
                copy.write_row(row)
        first, then = query(model, "postgres", form)
        if first:
            postgres.execute(first)
        return np.array([row[0] for row in postgres.execute(then).fetchall()], dtype=np.float64)

    return score


@pytest.fixture(scope="module")
def spark(spark_session: Any) -> Any:
    """A session of Spark as a user has it, queries compiled."""
    session = spark_session.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def score_in_spark(spark: Any) -> Score:
    from pyspark.sql import types

    type_of = {
        "number": types.DoubleType(),
        "string": types.StringType(),
        "integer": types.LongType(),
        "boolean": types.BooleanType(),
        "date": types.DateType(),
        "datetime": types.TimestampNTZType(),
    }

    def score(model: CalibrationEnsemble, rows: Rows, form: str) -> np.ndarray[Any, Any]:
        fields = [types.StructField("row_number", types.IntegerType())]
        fields += [types.StructField(f.name, type_of[getattr(f, "value_type", "number")]) for f in model.bins]
        frame = spark.createDataFrame(as_tuples(model, rows), types.StructType(fields))
        frame.createOrReplaceTempView("predictions")
        first, then = query(model, "spark", form)
        for statement in first.removesuffix(";\n").split(";\n"):
            if statement:
                spark.sql(statement.replace("CREATE OR REPLACE VIEW", "CREATE OR REPLACE TEMPORARY VIEW", 1))
        return np.array([row[0] for row in spark.sql(then).collect()], dtype=np.float64)

    return score


def assert_equal(model: CalibrationEnsemble, rows: Rows, got: np.ndarray[Any, Any]) -> None:
    np.testing.assert_allclose(got, reference(model, rows), rtol=TOLERANCE, atol=TOLERANCE)


@given(seeds, patterns)
@settings(deadline=None, max_examples=60)
def test_duckdb(seed: int, link: Any) -> None:
    model = random_model(seed, link, n_features=7)
    rows = random_rows(seed, model, 60, infinite=True)
    assert_equal(model, rows, score_in_duckdb(model, rows, ("expression", "select", "view")[seed % 3]))


@given(seeds, patterns)
@settings(deadline=None, max_examples=60)
def test_sqlite(seed: int, link: Any) -> None:
    model = random_model(seed, link, n_features=7)
    rows = random_rows(seed, model, 60, infinite=True)
    assert_equal(model, rows, score_in_sqlite(model, rows, ("expression", "select", "view")[seed % 3]))


@pytest.mark.parametrize("link", ["odds", "linear"])
@pytest.mark.parametrize("seed", range(12))
def test_postgres(postgres: Any, seed: int, link: Any) -> None:
    model = random_model(seed, link, n_features=7)
    rows = random_rows(seed, model, 60, infinite=True)
    assert_equal(model, rows, score_in_postgres(postgres)(model, rows, ("expression", "select", "view")[seed % 3]))


@pytest.mark.parametrize("link", ["odds", "linear"])
@pytest.mark.parametrize("seed", range(4))
def test_spark(spark: Any, seed: int, link: Any) -> None:
    model = random_model(seed, link, n_features=7)
    rows = random_rows(seed, model, 60, infinite=True)
    assert_equal(model, rows, score_in_spark(spark)(model, rows, ("expression", "select", "view")[seed % 3]))


def scorers(postgres: Any, spark: Any) -> dict[str, Score]:
    return {
        "duckdb": score_in_duckdb,
        "sqlite": score_in_sqlite,
        "postgres": score_in_postgres(postgres),
        "spark": score_in_spark(spark),
    }


def test_every_engine_joins_a_large_category(postgres: Any, spark: Any) -> None:
    model = wide_model(3, n_trees=8, n_leaves=16, n_values=400)
    rng = np.random.default_rng(1)
    sites = [*model.bins[3].values, "never seen", None]
    rows: Rows = {
        "score": rng.beta(0.5, 3.0, 600).tolist(),
        "age": rng.normal(size=600).tolist(),
        "price": [None if rng.random() < 0.1 else float(rng.normal()) for _ in range(600)],
        "site": [sites[i] for i in rng.integers(0, len(sites), 600)],
        "os": [["a", "b", "c", "other", None][i] for i in rng.integers(0, 5, 600)],
    }
    for name, score in scorers(postgres, spark).items():
        assert "JOIN" in str(export_model(model, "sql", dialect=name, form="select"))
        for form in ("expression", "select", "view"):
            assert_equal(model, rows, score(model, rows, form))


def scorer(request: pytest.FixtureRequest, engine: str) -> Score:
    """That of one engine: servers start only where they are needed."""
    if engine in ("duckdb", "sqlite"):
        return score_in_duckdb if engine == "duckdb" else score_in_sqlite
    server = request.getfixturevalue(engine)
    return score_in_postgres(server) if engine == "postgres" else score_in_spark(server)


@pytest.mark.parametrize("engine", ["duckdb", "sqlite", "postgres", "spark"])
def test_every_engine_runs_large_tables(request: pytest.FixtureRequest, engine: str) -> None:
    model = table_model(1, "linear", n_groups=90, n_binary=2)
    assert model.n_rules > 30_000
    rows = random_rows(1, model, 400, infinite=True)
    assert_equal(model, rows, scorer(request, engine)(model, rows, "tables"))


@pytest.mark.parametrize("engine", ["duckdb", "sqlite", "postgres", "spark"])
def test_every_engine_runs_thousands_of_rules_of_binary_trees(request: pytest.FixtureRequest, engine: str) -> None:
    model = wide_model(2, n_trees=64, n_leaves=32, n_values=100)
    rows = random_rows(1, model, 50)
    assert_equal(model, rows, scorer(request, engine)(model, rows, "auto"))


@given(seeds, patterns)
@settings(deadline=None, max_examples=30)
def test_tables_of_every_type_of_feature(seed: int, link: Any) -> None:
    """Numbers, texts, booleans, dates, joined by code."""
    rng = np.random.default_rng(seed)
    bins = random_bins(rng, 7)
    trees = tuple(table_tree(rng, bins, tuple(map(int, rng.permutation(8)[:3])), link, 9) for _ in range(3))
    model = CalibrationEnsemble("score", link, bins, trees)
    rows = random_rows(seed, model, 60, infinite=True)
    for score in (score_in_duckdb, score_in_sqlite):
        assert_equal(model, rows, score(model, rows, "tables"))


def test_a_whole_number_category_of_many_values_is_joined_by_number() -> None:
    base = wide_model(3, n_trees=12, n_leaves=16, n_values=300)
    numbers = tuple(str(2**53 + i) for i in range(300))
    bins = FeatureBins((*base.bins.features[:3], CategoryBins("site", numbers, "integer"), base.bins[4]))
    model = CalibrationEnsemble("score", "odds", bins, base.trees)
    rows: Rows = {
        "score": [0.3] * 400,
        "age": [0.0] * 400,
        "price": [0.1] * 400,
        "site": [None if i % 50 == 0 else 2**53 - 50 + i for i in range(400)],
        "os": ["a"] * 400,
    }
    assert "JOIN" in str(export_model(model, "sql", form="select"))
    assert_equal(model, rows, score_in_duckdb(model, rows, "select"))


def test_a_missing_prediction_is_null(postgres: Any, spark: Any) -> None:
    model = random_model(1, n_features=1)
    rows: Rows = {"score": [None, float("nan"), 0.5], "number 0": [1.0, 1.0, 1.0]}
    for score in scorers(postgres, spark).values():
        got = score(model, rows, "expression")
        assert np.isnan(got).tolist() == [True, True, False]


@pytest.mark.parametrize("form", ["expression", "select"])
def test_nan_in_parquet_is_missing_whatever_its_statistics_say(tmp_path: Path, form: str) -> None:
    """Parquet statistics leave NaN out: DuckDB believes them, and decides comparisons without looking at the rows."""
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed: pip install 'mbct[cli]'")
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "score": rng.random(400),
            "x": np.where(rng.random(400) < 0.3, np.nan, rng.random(400)),
            "level": np.where(rng.random(400) < 0.3, np.nan, 0.5),
            "single": np.where(rng.random(400) < 0.3, np.nan, rng.random(400)).astype(np.float32),
        }
    )
    pl.from_arrow(table).write_parquet(tmp_path / "polars.parquet")
    parquet.write_table(table, tmp_path / "pyarrow.parquet")
    bins = FeatureBins(
        (
            NumberBins("score", (0.5,)),
            NumberBins("x", (0.2, 0.6, 3.0)),
            CategoryBins("level", ("0.5", "1.5"), "number"),
            NumberBins("single", (0.5, 2.0)),
        )
    )
    model = CalibrationEnsemble("score", "odds", bins, tuple(random_tree(rng, bins, "odds") for _ in range(8)))
    expected = reference(model, {name: table[name].to_pylist() for name in table.column_names})
    for writer in ("polars", "pyarrow"):
        source = f"read_parquet('{tmp_path}/{writer}.parquet')"
        with duckdb.connect() as connection:
            connection.execute(f"CREATE VIEW predictions AS SELECT * FROM {source}")
            sql = str(export_model(model, "sql", dialect="duckdb", form=form))
            found = connection.sql(f"SELECT {sql} AS calibrated FROM predictions" if form == "expression" else sql)
            np.testing.assert_allclose(found.fetchnumpy()["calibrated"], expected, rtol=0, atol=TOLERANCE)


def test_a_model_without_trees_returns_the_prediction(postgres: Any, spark: Any) -> None:
    model = random_model(1).with_trees(())
    rows = random_rows(1, model, 5)
    for score in scorers(postgres, spark).values():
        assert score(model, rows, "select").tolist() == rows["score"]


def test_sums_of_steps_beyond_the_range_of_exp_do_not_overflow(postgres: Any, spark: Any) -> None:
    model = random_model(2, n_trees=2, n_features=1)
    model = model.with_trees(tuple(tree.rescaled(2000.0) for tree in model.trees))
    rows = random_rows(3, model, 50, infinite=True)
    for score in scorers(postgres, spark).values():
        np.testing.assert_allclose(score(model, rows, "select"), reference(model, rows), rtol=0, atol=TOLERANCE)


def test_hundreds_of_trees_stay_within_the_depth_that_engines_bear() -> None:
    # DuckDB and SQLite refuse an expression that nests 1,000 deep, as a plain sum of so many trees would.
    model = random_model(4, n_trees=1050, n_features=1)
    rows = random_rows(4, model, 20)
    for score in (score_in_duckdb, score_in_sqlite):
        assert_equal(model, rows, score(model, rows, "expression"))


def test_deep_trees_in_sqlite() -> None:
    edges = tuple(float(edge) for edge in range(1, 40))
    bins = FeatureBins((NumberBins("score", ()), NumberBins("a", edges), NumberBins("b", edges)))
    depth = 60
    feature = [1 + k // 2 % 2 if k % 2 == 0 and k < 2 * depth else -1 for k in range(2 * depth + 1)]
    table: list[int] = []
    start = []
    for k, j in enumerate(feature):
        start.append(len(table))
        if j > 0:
            cut = 38 - k // 4
            table += [k + 2] * cut + [k + 1] * (bins[j].n_codes - cut)
    steps, ones = np.linspace(-2.0, 2.0, len(feature)), np.ones(len(feature))
    arrays = np.array(feature, np.int32), np.array(start, np.int64), np.array(table, np.int32)
    model = CalibrationEnsemble("score", "odds", bins, (CalibrationTree(*arrays, steps, ones, ones, ones),))
    rng = np.random.default_rng(0)
    rows: Rows = {"score": [0.3] * 400, **{name: rng.uniform(0, 42, 400).tolist() for name in "ab"}}
    assert len(set(reference(model, rows).tolist())) > 15
    assert_equal(model, rows, score_in_sqlite(model, rows, "expression"))


@pytest.mark.parametrize("names", [("age", "Age"), ("x", "X")])
def test_columns_that_differ_in_case_only_are_refused(names: tuple[str, str]) -> None:
    first, second = (CategoryBins(name, ("a", "b")) for name in names)
    feature = np.array([1, 2, -1, -1, -1, -1, -1, -1, -1], np.int32)
    start, table = np.array([0, 4] + [8] * 7, np.int64), np.arange(1, 9, dtype=np.int32)
    tree = CalibrationTree(feature, start, table, np.linspace(-1.0, 1.0, 9), *(np.ones(9) for _ in range(3)))
    model = CalibrationEnsemble("score", "odds", FeatureBins((NumberBins("score", ()), first, second)), (tree,))
    with pytest.raises(ParameterError, match="differ in case only"):
        export_model(model, "sql")
    assert "other" in str(export_model(model, "sql", columns={names[1]: "other"}))


@pytest.mark.parametrize("dialect", ["mysql", "spark"])
def test_literals_hold_whether_or_not_a_backslash_escapes(dialect: str) -> None:
    literal = str(DIALECTS[dialect].text("O'Hare\\"))
    assert "\\" not in literal
    assert b"O'Hare\\".hex() in literal


def test_characters_that_end_strings_elsewhere(postgres: Any, spark: Any) -> None:
    values = ("nul\0inside", "\0", "tab\t", "cr\r\n", "\\0", "\\n", "\\", "''", "$$", "%s", "?", ":x", "\x1a", "/* */")
    feature = CategoryBins("we`ird \"na]me'\\", values)
    model = one_split_model(feature)
    for name, score in scorers(postgres, spark).items():
        held = [v for v in values if name != "postgres" or "\0" not in v]
        rows: Rows = {"score": [0.5] * len(held), feature.name: held}
        assert_equal(model, rows, score(model, rows, "expression"))


def test_moments_with_an_offset_from_utc_are_compared_as_instants(postgres: Any) -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    moments = [datetime.datetime(2024, 5, 1, hour, tzinfo=zone) for hour in range(3)]
    keys = tuple(str(category_key(moment)) for moment in moments[:2])
    assert keys == ("2024-04-30 22:00:00", "2024-04-30 23:00:00")
    postgres.execute("SET TimeZone = 'America/New_York'")
    model = one_split_model(CategoryBins("moment", keys, "datetime"))
    sql = str(export_model(model, "sql", dialect="postgres"))
    postgres.execute("DROP TABLE IF EXISTS predictions CASCADE")
    postgres.execute("CREATE TABLE predictions (score DOUBLE PRECISION, moment TIMESTAMPTZ, row_number INTEGER)")
    for i, moment in enumerate(moments):
        postgres.execute("INSERT INTO predictions VALUES (%s, %s, %s)", (0.5, moment, i))
    got = [row[0] for row in postgres.execute(f"SELECT {sql} FROM predictions ORDER BY row_number")]
    assert_equal(model, {"score": [0.5] * 3, "moment": moments}, np.array(got))
