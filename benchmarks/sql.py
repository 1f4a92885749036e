"""The default model of real data as SQL: a million rows in DuckDB, and parity there, in SQLite and in PostgreSQL.

    python benchmarks/sql.py --data ../shared/data --postgres "host=127.0.0.1 dbname=postgres user=postgres"

Fits the default on the data sets of ``quality.py --order time`` with the strong base and without calendar columns,
exports it in the form that "auto" takes, and runs it over rows to evaluate, repeated up to a million in DuckDB (all
threads), ten thousand elsewhere. Without ``--postgres`` that column stays empty. A model that is refused says why.
Writes ``docs/benchmarks/sql.jsonl`` and ``sql.md``.
"""

import argparse
import contextlib
import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from made_with import write_page
from mbct import MBCTCalibrator
from mbct.errors import MBCTError
from mbct.export import export_model
from mbct.progress import progress
from quality_data import pairs, splits

OUT = Path("docs/benchmarks")
MILLION, FEW = 1_000_000, 10_000


def in_duckdb(script: str, rows: pd.DataFrame) -> tuple[np.ndarray, float, float]:
    """Results of the first rows, seconds to compile, and seconds over a million rows."""
    connection = duckdb.connect()
    connection.register("frame", rows)
    connection.execute("CREATE TABLE predictions AS SELECT *, row_number() OVER () AS number FROM frame")
    began = time.perf_counter()
    connection.execute(script)
    connection.execute("SELECT calibrated FROM calibrated_predictions LIMIT 0")
    compiled = time.perf_counter()
    connection.execute("SELECT sum(calibrated) FROM calibrated_predictions").fetchall()
    ran = time.perf_counter()
    few = f"SELECT calibrated FROM calibrated_predictions WHERE number <= {FEW} ORDER BY number"
    return connection.execute(few).fetchnumpy()["calibrated"], compiled - began, ran - compiled


def in_sqlite(script: str, rows: pd.DataFrame) -> np.ndarray:
    """Results of a few rows."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        rows.to_sql("predictions", connection, index_label="number")
        connection.executescript(script)
        found = connection.execute("SELECT calibrated FROM calibrated_predictions ORDER BY number").fetchall()
    return np.array([value for (value,) in found])


def in_postgres(address: str) -> Callable[[str, pd.DataFrame], np.ndarray]:
    """The same in PostgreSQL at an address."""
    import psycopg

    def run(script: str, rows: pd.DataFrame) -> np.ndarray:
        kinds = ["double precision" if rows[name].dtype.kind in "iuf" else "text" for name in rows]
        columns = ", ".join(f'"{name}" {kind}' for name, kind in zip(rows, kinds, strict=True))
        with psycopg.connect(address) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE TEMP TABLE predictions (number int, {columns})")
            with cursor.copy("COPY predictions FROM STDIN") as copy:
                for row in rows.astype(object).where(rows.notna(), None).itertuples():
                    copy.write_row(row)
            cursor.execute(script)
            found = cursor.execute("SELECT calibrated FROM calibrated_predictions ORDER BY number").fetchall()
            connection.rollback()
        return np.array([value for (value,) in found])

    return run


def measure(name: str, folder: Path, postgres: str | None) -> dict[str, Any]:
    """Fit, export and run one data set."""
    split = splits(name, "strong", False, folder)
    calibrator = MBCTCalibrator("score").fit(split.fit_frame, split.fit_label, time=split.fit_block)
    model, few = calibrator.model_, split.eval_frame.head(FEW).reset_index(drop=True)
    expected = calibrator.calibrate(few)
    many = split.eval_frame.iloc[np.arange(MILLION) % len(split.eval_frame)].reset_index(drop=True)

    def sql(dialect: str) -> str:
        return str(export_model(model, "sql", dialect=dialect, form="auto"))

    try:
        sql("duckdb")
    except MBCTError as refused:
        return {"data": name, "form": calibrator.form_, "refused": str(refused)}
    found, compiled, ran = in_duckdb(sql("duckdb"), many)
    others = {"sqlite": in_sqlite, **({"postgres": in_postgres(postgres)} if postgres else {})}
    return {
        "data": name,
        "form": calibrator.form_,
        "megabytes": len(sql("duckdb").encode()) / 1e6,
        "compile": compiled,
        "million_rows": ran,
        "duckdb": float(np.abs(found[: len(expected)] - expected).max()),
        **{dialect: float(np.abs(run(sql(dialect), few) - expected).max()) for dialect, run in others.items()},
    }


def page(results: list[dict[str, Any]]) -> str:
    """A line for each data set."""
    lines = [
        "# The default model as SQL",
        "The model that the default takes on real data in time order (strong base), exported as SQL: its size, seconds "
        "to compile and to run over a million rows in DuckDB on all threads, and the largest difference to Python in "
        "three engines. Made by `python benchmarks/sql.py`.",
    ]
    table = ["| data | model | SQL | compile | a million rows | DuckDB | SQLite | PostgreSQL |", "|" + "---|" * 8]
    for r in results:
        if "refused" in r:
            table.append(f"| {r['data']} | {r['form']} | refused: {r['refused']} | | | | | |")
            continue
        differences = " | ".join(f"{r[d]:.0e}" if d in r else "–" for d in ("duckdb", "sqlite", "postgres"))
        size = f"{r['megabytes']:.2f} MB | {r['compile']:.2f} s | {r['million_rows']:.2f} s"
        table.append(f"| {r['data']} | {r['form']} | {size} | {differences} |")
    return "\n\n".join([*lines, "\n".join(table)]) + "\n"


def main() -> None:
    """Measure what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--postgres", help="address of a PostgreSQL server")
    arguments = parser.parse_args()
    kept = OUT / "sql.jsonl"
    results = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    done = {r["data"] for r in results}
    names = [n for n in dict.fromkeys(name for name, *_ in pairs("time")) if n not in done]
    with progress("sql", len(names)) as advance:
        for name in names:
            results.append(measure(name, arguments.data, arguments.postgres))
            kept.write_text("".join(json.dumps(r) + "\n" for r in results))
            advance(1)
    write_page(OUT / "sql.md", page(results))
    print(page(results))


if __name__ == "__main__":
    main()
