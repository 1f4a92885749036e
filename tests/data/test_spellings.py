"""One law: a value has the same code, and a row the same calibrated number, whatever runtime holds it."""

import csv
import datetime
import json
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mbct.data
from mbct.export.sql import to_sql
from mbct.model.bins import CategoryBins, Feature, FeatureBins, NumberBins
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.tree import CalibrationTree
from mbct.serving.batch import BatchScorer
from mbct.serving.row import RowScorer

DAYS = [datetime.date(2024, 1, 31), datetime.date(2024, 2, 29)]
COLUMNS: dict[str, tuple[CategoryBins, list[Any]]] = {
    "boolean": (CategoryBins("x", ("true", "false"), "boolean"), [True, False, None, True]),
    "boolean learnt as text": (CategoryBins("x", ("false", "true"), "string"), [True, False, None, True]),
    "yes and no": (CategoryBins("x", ("Yes", "No"), "string"), ["Yes", "No", "", None, "yes"]),
    "date": (CategoryBins("x", ("2024-02-29", "2024-01-31"), "date"), [*DAYS, None, datetime.date(1999, 1, 1)]),
    "integer": (CategoryBins("x", ("7", "1", "0"), "integer"), [0, 1, 7, None, 8]),
    "integer as text": (CategoryBins("x", ("007", "7"), "string"), ["007", "7", "", None]),
    "trailing spaces": (CategoryBins("x", ("a", "a ", " a"), "string"), ["a", "a ", " a", " ", None]),
}


def model_of(feature: Feature) -> CalibrationEnsemble:
    n = feature.n_codes
    sums = [np.ones(n + 1) for _ in range(3)]
    tree = CalibrationTree(
        np.array([1] + [-1] * n, np.int32),
        np.zeros(n + 1, np.int64),
        np.arange(1, n + 1, dtype=np.int32),
        np.concatenate([[0.0], np.linspace(-2.0, 2.0, n)]),
        *sums,
    )
    return CalibrationEnsemble("p", "odds", FeatureBins((NumberBins("p", ()), feature)), (tree,))


def expected(feature: Feature, values: list[Any]) -> np.ndarray:
    steps = np.linspace(-2.0, 2.0, feature.n_codes)[list(map(feature.value_encoder(), values))]
    return 1.0 / (1.0 + (0.7 / 0.3) * np.exp(-steps))


def numbers(found: Any, column: str = "calibrated") -> np.ndarray:
    return np.array(pl.DataFrame(found)[column].to_list(), dtype=float)


def object_column(values: list[Any]) -> pd.Series:
    return pd.Series(values, dtype=object)


def in_csv(values: list[Any], folder: Path) -> str:
    with (folder / "rows.csv").open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerows([("p", "x"), *((0.3, value) for value in values)])
    return str(folder / "rows.csv")


def in_parquet(values: list[Any], folder: Path) -> str:
    pq.write_table(pa.table({"p": [0.3] * len(values), "x": pa.array(values)}), folder / "rows.parquet")
    return str(folder / "rows.parquet")


def scored_by_sqlite(model: CalibrationEnsemble, values: list[Any]) -> np.ndarray:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE predictions (p REAL, x)")
    plain = [value.isoformat() if isinstance(value, datetime.date) else value for value in values]
    connection.executemany("INSERT INTO predictions VALUES (0.3, ?)", [(value,) for value in plain])
    rows = connection.execute(to_sql(model, "sqlite", "select")).fetchall()
    return np.array([row[-1] for row in rows])


@pytest.mark.parametrize("kind", COLUMNS)
def test_every_runtime_gives_the_same_number(kind: str, tmp_path: Path) -> None:
    feature, values = COLUMNS[kind]
    model, n = model_of(feature), len(values)
    frame = pd.DataFrame({"p": [0.3] * n, "x": object_column(values)})
    polars = pl.DataFrame({"p": [0.3] * n, "x": values})
    texts = json.loads(json.dumps([{"p": 0.3, "x": value} for value in values], default=str))
    score_row = RowScorer(model).score_row
    connection = duckdb.connect()
    table = pa.table({"p": [0.3] * n, "x": pa.array(values)})
    found = {
        "pandas object": numbers(mbct.data.score(frame, model)),
        "pandas category": numbers(mbct.data.score(frame.assign(x=frame.x.astype("category")), model)),
        "pandas nullable": numbers(mbct.data.score(frame.convert_dtypes(), model)),
        "polars": numbers(mbct.data.score(polars, model)),
        "polars lazy": numbers(mbct.data.score(polars.lazy(), model).collect()),
        "arrow": numbers(mbct.data.score(polars.to_arrow(), model)),
        "CSV": numbers(mbct.data.score(in_csv(values, tmp_path), model).pl()),
        "Parquet": numbers(mbct.data.score(in_parquet(values, tmp_path), model).pl()),
        "DuckDB": numbers(mbct.data.score(connection.sql("SELECT * FROM polars"), model).pl()),
        "SQL of DuckDB": numbers(connection.sql(to_sql(model, "duckdb", "select", table="polars")).pl()),
        "row": np.array([score_row({"p": 0.3, "x": value}) for value in values]),
        "Arrow of the service": BatchScorer(model).score_arrow(table),
        "rows of the service": BatchScorer(model).score_rows([{"p": 0.3, "x": value} for value in values]),
        "JSON": np.array([score_row(row) for row in texts]),
        "SQL of SQLite": scored_by_sqlite(model, values),
    }
    for runtime, got in found.items():
        np.testing.assert_allclose(got, expected(feature, values), rtol=1e-12, err_msg=runtime)


def test_numbers_that_sqlite_holds_as_text_are_those_of_a_csv_file(tmp_path: Path) -> None:
    number, values = NumberBins("x", (0.5, 2.5)), ["1", "3.0", "", None, "-1", "NA"]
    wanted = expected(number, [1.0, 3.0, None, None, -1.0, None])
    found = mbct.data.score(in_csv(values[:-1], tmp_path), model_of(number)).pl()
    np.testing.assert_allclose(numbers(found), wanted[:-1], rtol=1e-12)
    np.testing.assert_allclose(scored_by_sqlite(model_of(number), values), wanted, rtol=1e-12)


@pytest.mark.parametrize("kind", COLUMNS)
def test_spark_gives_the_same_number(kind: str, tmp_path: Path, spark: Any) -> None:
    feature, values = COLUMNS[kind]
    model = model_of(feature)
    rows = spark.read.parquet(in_parquet(values, tmp_path))
    rows.createOrReplaceTempView("predictions")
    for got in (mbct.data.score(rows, model), spark.sql(to_sql(model, "spark", "select"))):
        np.testing.assert_allclose(numbers(got.toArrow()), expected(feature, values), rtol=1e-12)


def test_a_model_fitted_from_csv_knows_the_values_of_other_runtimes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 6_000
    answer, p = rng.choice(["Yes", "No"], n), np.round(rng.beta(1.0, 3.0, n), 3)
    z = np.log((p + 1e-3) / (1.0 - p + 1e-3)) + np.where(answer == "Yes", 1.2, -1.2)
    frame = pd.DataFrame({"p": p, "answer": answer, "y": (rng.random(n) < 1.0 / (1.0 + np.exp(-z))).astype(int)})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    from mbct import MBCTCalibrator

    fitted = MBCTCalibrator(score_column="p", preset="paper", min_bin_size=500).fit(str(tmp_path / "rows.csv"), "y")

    assert set(fitted.model_.bins[1].values) == {"Yes", "No"}
    in_memory = fitted.calibrate(frame[["p", "answer"]])
    np.testing.assert_array_equal(fitted.calibrate(str(tmp_path / "rows.csv")), in_memory)
    assert np.abs(in_memory - p).mean() > 0.05
