"""One file with every awkward kind of value, and the same file behind every kind of source."""

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

N_ROWS = 6_000


@pytest.fixture(scope="session")
def awkward_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Numbers with NaN, null and infinity; text, whole numbers, booleans, dates, moments, decimals; weights with 0."""
    rng = np.random.default_rng(11)
    n = N_ROWS
    site = rng.choice(["a", "b", "O'Hare", "", "naïve", "'; DROP"], n)
    x = np.round(rng.normal(size=n), 3)
    hour = rng.integers(0, 24, n)
    p = np.round(rng.beta(1.0, 4.0, n), 4)
    z = np.log((p + 1e-3) / (1.0 - p + 1e-3)) + 0.8 * (site == "a") - 0.7 * (x > 0.4) + 0.4 * (hour > 17)
    label = (rng.random(n) < 1.0 / (1.0 + np.exp(-z))).astype(np.int8)
    frame = pl.DataFrame(
        {
            "p": p,
            "label": label,
            "weight": rng.integers(0, 4, n).astype(float),
            "site": site,
            "x": x,
            "single": x.astype(np.float32),
            "hour": hour,
            "flag": rng.random(n) < 0.3,
            "day": [datetime.date(2024, 1, int(d)) for d in rng.integers(1, 20, n)],
            "moment": [
                datetime.datetime(2024, 1, 1, 0, 0, int(s), 500_000 * int(s % 2)) for s in rng.integers(0, 9, n)
            ],
            "half": rng.integers(0, 6, n) / 2.0,
            "price": rng.integers(0, 9, n) / 4.0,
        }
    ).with_columns(
        pl.col("price").cast(pl.Decimal(10, 2)),
        pl.when(pl.col("hour") == 3).then(None).otherwise(pl.col("hour")).alias("hour"),
        pl.when(pl.col("site") == "b").then(None).otherwise(pl.col("site")).alias("site"),
        pl.when(pl.col("half") == 1.0).then(float("nan")).otherwise(pl.col("half")).alias("half"),
        pl.when(pl.col("x") > 1.5)
        .then(None)
        .when(pl.col("x") < -2.0)
        .then(float("nan"))
        .when(pl.col("x") < -1.9)
        .then(float("inf"))
        .otherwise(pl.col("x"))
        .alias("x"),
    )
    path = tmp_path_factory.mktemp("awkward") / "rows.parquet"
    frame.write_parquet(path)
    return path


@pytest.fixture(scope="session")
def spark(spark_session: Any) -> Any:
    """A session of Spark for queries of few rows."""
    session = spark_session.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    # Compiling a query takes longer than running it on so few rows.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    session.conf.set("spark.sql.adaptive.enabled", "false")
    return session


Opener = Callable[[Path, pytest.FixtureRequest], Any]


def _relation(path: Path, _: pytest.FixtureRequest) -> Any:
    import duckdb

    return duckdb.connect().sql(f"SELECT * FROM '{path}'")


def _query(path: Path, _: pytest.FixtureRequest) -> Any:
    import duckdb

    return duckdb.connect(), f"SELECT * FROM '{path}'"


def _pandas(path: Path, _: pytest.FixtureRequest) -> Any:
    import pandas as pd

    return pd.read_parquet(path)


def _arrow(path: Path, _: pytest.FixtureRequest) -> Any:
    import pyarrow.parquet as pq

    return pq.read_table(path)


def _dataset(path: Path, _: pytest.FixtureRequest) -> Any:
    import pyarrow.dataset as ds

    return ds.dataset(path)


def _spark(path: Path, request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue("spark").read.parquet(str(path))


OPENERS: dict[str, Opener] = {
    "path": lambda path, _: path,
    "text path": lambda path, _: str(path),
    "relation": _relation,
    "query": _query,
    "polars": lambda path, _: pl.read_parquet(path),
    "polars lazy": lambda path, _: pl.scan_parquet(path),
    "pandas": _pandas,
    "pyarrow": _arrow,
    "dataset": _dataset,
    "spark": _spark,
}


@pytest.fixture(params=list(OPENERS))
def opened(request: pytest.FixtureRequest) -> Callable[[Path], Any]:
    """A function that opens a Parquet file as one kind of source."""
    return lambda path: OPENERS[request.param](path, request)


@pytest.fixture(params=["path", "polars lazy", "spark"])
def opened_lazily(request: pytest.FixtureRequest) -> Callable[[Path], Any]:
    """As ``opened``, one source for each engine that leaves rows where they lie."""
    return lambda path: OPENERS[request.param](path, request)
