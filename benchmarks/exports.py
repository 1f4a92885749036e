"""What each export of a model weighs, takes to compile and takes to run.

    PYTHONPATH=tests python benchmarks/exports.py [--rows 1000000] [--targets 'sql, duckdb' c]

Two models: 16 tables over one to three features with 23,800 entries, and 8 binary trees of 32 leaves. Seconds are those
of the processor on one thread, so that other work on the machine does not count; PMML's evaluator runs in Java, where
they are those of the clock. Prints a table for ``docs/exports.md``.
"""

import argparse
import contextlib
import resource
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from builders import table_model
from mbct.export import export_model
from mbct.export.lightgbm import lightgbm_matrix
from mbct.export.onnx import onnx_inputs
from mbct.export.spelling import identifiers

Measured = tuple[float, float, int]
"""Seconds to compile, seconds to run, and rows."""


def raw_rows(model: Any, n_rows: int, seed: int = 1) -> pd.DataFrame:
    """Rows of known values, one number in twenty missing."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {"score": rng.beta(0.6, 3.0, n_rows)}
    for feature in model.bins.features[1:]:
        if feature.ordered:
            values = rng.integers(0, 24, n_rows).astype(float) if feature.name == "hour" else rng.normal(size=n_rows)
            columns[feature.name] = np.where(rng.random(n_rows) < 0.05, np.nan, values)
        elif feature.value_type == "boolean":
            columns[feature.name] = rng.random(n_rows) < 0.5
        else:
            columns[feature.name] = np.array(feature.values, dtype=object)[rng.integers(0, feature.n_values, n_rows)]
    return pd.DataFrame(columns)


def cpu() -> float:
    """Processor seconds of this process and of those it ran."""
    return time.process_time() + resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


def duckdb(script: str, rows: pd.DataFrame, _: Any) -> Measured:
    """The view over a table, aggregated so that no result is fetched."""
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    connection.register("frame", rows)
    connection.execute("CREATE TABLE predictions AS SELECT * FROM frame")
    began = cpu()
    connection.execute(script)
    connection.execute("SELECT calibrated FROM calibrated_predictions LIMIT 0")
    compiled = cpu()
    connection.execute("SELECT sum(calibrated) FROM calibrated_predictions").fetchall()
    return compiled - began, cpu() - compiled, len(rows)


def sqlite(script: str, rows: pd.DataFrame, _: Any) -> Measured:
    """The same in SQLite."""
    rows = rows.head(100_000)
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        rows.to_sql("predictions", connection, index=False)
        began = cpu()
        connection.executescript(script)
        connection.execute("SELECT calibrated FROM calibrated_predictions LIMIT 0")
        compiled = cpu()
        connection.execute("SELECT sum(calibrated) FROM calibrated_predictions").fetchall()
        return compiled - began, cpu() - compiled, len(rows)


def onnx(content: bytes, rows: pd.DataFrame, model: Any) -> Measured:
    """Run by onnxruntime."""
    import onnxruntime

    rows = rows.head(100_000)
    inputs = onnx_inputs(model, rows)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    began = cpu()
    session = onnxruntime.InferenceSession(content, options)
    compiled = cpu()
    session.run(["calibrated"], inputs)
    return compiled - began, cpu() - compiled, len(rows)


def lightgbm(text: str, rows: pd.DataFrame, model: Any) -> Measured:
    """LightGBM on a coded matrix."""
    import lightgbm

    rows = rows.head(20_000)
    matrix = lightgbm_matrix(model, rows)
    began = cpu()
    booster = lightgbm.Booster(model_str=text)
    compiled = cpu()
    booster.predict(matrix, num_threads=1)
    return compiled - began, cpu() - compiled, len(rows)


def python(source: str, rows: pd.DataFrame, _: Any) -> Measured:
    """The standard library alone."""
    records = rows.head(20_000).to_dict("records")
    began = cpu()
    content: dict[str, Any] = {"__name__": "exported"}
    exec(compile(source, "exported.py", "exec"), content)
    compiled = cpu()
    for record in records:
        content["calibrate"](record)
    return compiled - began, cpu() - compiled, len(records)


def c(source: str, rows: pd.DataFrame, model: Any, times: int = 1000) -> Measured:
    """``gcc -O2``, and a program that calibrates a thousand rows again and again."""
    rows = rows.head(1000)
    names = identifiers(model.bins.names)
    written = ",\n".join(
        "{" + ", ".join(f".{name} = {_c_value(v)}" for name, v in zip(names, row, strict=True)) + "}"
        for row in rows[list(model.bins.names)].itertuples(index=False)
    )
    main = (
        '#define MBCT_DECLARATIONS\n#include "model.c"\n#include <math.h>\n#include <stddef.h>\n#include <stdio.h>\n'
        f"static const struct mbct_row rows[] = {{{written}}};\nint main(void) {{ double sum = 0; int i, j;\n"
        f"for (j = 0; j < {times}; j++) for (i = 0; i < {len(rows)}; i++) sum += mbct_calibrate(&rows[i]);\n"
        'printf("%g", sum); return 0; }\n'
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model.c").write_text(source, encoding="ascii")
        (Path(folder) / "main.c").write_text(main, encoding="utf-8")
        began = cpu()
        subprocess.run(["gcc", "-std=c99", "-O2", "main.c", "model.c", "-o", "run", "-lm"], cwd=folder, check=True)
        compiled = cpu()
        subprocess.run(["./run"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        return compiled - began, cpu() - compiled, times * len(rows)


def _c_value(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    return "NAN" if value != value else repr(float(value))


def pmml(text: str, rows: pd.DataFrame, _: Any) -> Measured:
    """pmml4s, through pypmml."""
    import pypmml

    records = rows.head(200).astype(object).where(rows.head(200).notna(), None).to_dict("records")
    records = [{k: str(v).lower() if isinstance(v, bool) else v for k, v in record.items()} for record in records]
    began = time.perf_counter()
    loaded = pypmml.Model.fromString(text)
    compiled = time.perf_counter()
    for record in records:
        loaded.predict(record)
    finished = time.perf_counter()
    pypmml.Model.close()
    return compiled - began, finished - compiled, len(records)


RUNS: dict[str, Callable[[Any, pd.DataFrame, Any], Measured]] = {
    "sql, duckdb": duckdb,
    "sql, sqlite": sqlite,
    "onnx": onnx,
    "lightgbm": lightgbm,
    "python": python,
    "c": c,
    "pmml": pmml,
}


def line(target: str, name: str, model: Any, rows: pd.DataFrame) -> str:
    """One line of the table."""
    to, _, dialect = target.partition(", ")
    content = export_model(model, to, **({"dialect": dialect, "form": "auto"} if dialect else {}))
    compile_seconds, run_seconds, n_rows = RUNS[target](content, rows, model)
    size = len(content.encode() if isinstance(content, str) else content) / 1e6
    return f"| `{target}` | {name} | {size:.2f} MB | {compile_seconds:.2f} s | {run_seconds / n_rows * 1e6:,.2f} s |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--targets", nargs="*", choices=list(RUNS), default=list(RUNS))
    arguments = parser.parse_args()
    print("| target | model | size | compile | a million rows |\n|---|---|---|---|---|")
    tables, binary = table_model(1, "odds", 16, 90), table_model(1, "odds", 0, n_binary=8)
    for name, model in (("16 tables", tables), ("8 × 32", binary)):
        rows = raw_rows(model, arguments.rows)
        for target in arguments.targets:
            print(line(target, name, model, rows), flush=True)


if __name__ == "__main__":
    main()
