"""Millions of rows through the embedded engine under a memory limit: time, cells and peak memory of each step.

    python benchmarks/engines.py --rows 12000000 --memory-limit 1GB

Two kinds of data: "correlated" features, as in real logs, which shrink into few cells, and "independent" skewed keys,
which do not. Every step runs in a process of its own, whose peak resident memory the system reports. The files are
written to --folder and reused. With --data, how cells grow with rows is
measured on real data too. Results go to ``docs/benchmarks/engines.json``.
"""

import argparse
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

OUT = Path("docs/benchmarks/engines.json")
N_KEYS = 8


def write_rows(path: Path, kind: str, n_rows: int) -> None:
    """Simulated rows: a prediction, a label and eight keys; written by DuckDB, row group by row group."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SELECT setseed(0.42)")
    if kind == "correlated":
        # Eight views of one skewed segment, as site, domain and category are of one placement.
        base = f"SELECT random() AS a, random() AS b, (400 * pow(random(), 3))::INT AS s FROM range({n_rows})"
        keys = ", ".join(f"(s * {prime}) % {size} AS key{j}" for j, (prime, size) in enumerate(_VIEWS))
    else:
        drawn = ", ".join(f"(40 * pow(random(), 3))::INT AS key{j}" for j in range(N_KEYS))
        base = f"SELECT random() AS a, random() AS b, {drawn} FROM range({n_rows})"
        keys = ", ".join(f"key{j}" for j in range(N_KEYS))
    rows = f"SELECT round(0.3 * a * a, 4) AS p, b, {keys} FROM ({base})"
    labelled = f"SELECT p, (b < p * (0.6 + 0.1 * (key0 % 9)))::INT AS y, * EXCLUDE (p, b) FROM ({rows})"
    connection.execute(f"COPY ({labelled}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")


_VIEWS = [(7, 40), (11, 12), (13, 25), (17, 8), (19, 60), (23, 5), (29, 100), (31, 3)]


def step_bins(path: Path, limit: str) -> dict[str, Any]:
    """Fit the bins and keep them for the next steps."""
    from mbct.data import fit_bins, open_source

    bins = fit_bins(_source(open_source, path, limit), score_column="p", label="y", categorical="all")
    path.with_suffix(".bins.json").write_text(json.dumps(bins.to_list()))
    return {"codes": sum(bins.n_codes)}


def step_aggregate(path: Path, limit: str) -> dict[str, Any]:
    """GROUP BY the codes."""
    from mbct.data import aggregate, open_source
    from mbct.model.bins import FeatureBins

    bins = FeatureBins.from_list(json.loads(path.with_suffix(".bins.json").read_text()))
    cells = aggregate(_source(open_source, path, limit), bins, label="y")
    return {"rows": float(cells.total.count), "cells": len(cells)}


def step_level_wise(path: Path, limit: str) -> dict[str, Any]:
    """Grow two trees of the paper's preset on rows that stay in the engine."""
    return _fit(path, limit, "level-wise")


def step_cells(path: Path, limit: str) -> dict[str, Any]:
    """Grow the same trees from cells."""
    return _fit(path, limit, "cells")


def step_score(path: Path, limit: str) -> dict[str, Any]:
    """Score every row with those trees and write the result as Parquet."""
    from mbct import load_model
    from mbct.data import open_source, score

    scored = score(_source(open_source, path, limit), load_model(path.with_suffix(".model.json")))
    scored.write_parquet(str(path.with_suffix(".scored.parquet")))
    return {}


def _fit(path: Path, limit: str, strategy: str) -> dict[str, Any]:
    from mbct import MBCTCalibrator
    from mbct.data import open_source

    fitted = MBCTCalibrator(
        "p", preset="paper", categorical="all", max_trees=2, max_depth=3, min_bin_size=20_000, strategy=strategy
    ).fit(_source(open_source, path, limit), "y")
    fitted.save(path.with_suffix(".model.json"))
    return {"trees": len(fitted.model_.trees), "rules": fitted.model_.n_rules}


def _source(open_source: Callable[..., Any], path: Path, limit: str) -> Any:
    return open_source(path, memory_limit=limit, threads=os.cpu_count())


STEPS = {
    "bins": step_bins,
    "aggregate": step_aggregate,
    "fit from cells": step_cells,
    "fit level-wise": step_level_wise,
    "score": step_score,
}


def _measure(step: str, path: Path, limit: str, results: Any) -> None:
    import duckdb  # noqa: F401 - loaded before time and memory are measured
    import pyarrow  # noqa: F401 - likewise

    at_start = _peak()
    start = time.perf_counter()
    found = STEPS[step](path, limit)
    results.put(
        {
            "step": step,
            "seconds": round(time.perf_counter() - start, 1),
            "peak_mb": _peak(),
            "imports_mb": at_start,
            **found,
        }
    )


def _peak() -> int:
    scale = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 1e6)


def growth(folder: Path) -> list[dict[str, Any]]:
    """Cells of real data as rows are added: the figures behind the estimate for a cluster."""
    import pandas as pd
    from sklearn.ensemble import HistGradientBoostingClassifier

    from mbct.data import aggregate, fit_bins
    from mbct.training.binning import BinningOptions

    found = []
    for name, label, dropped in (
        ("fremtpl2", "claim", ["ClaimNb", "IDpol"]),
        ("criteo_attribution", "click", ["split", "__index_level_0__"]),
    ):
        rows = pd.read_parquet(folder / f"{name}.parquet").drop(columns=dropped, errors="ignore")
        rows = rows.sample(frac=1.0, random_state=0, ignore_index=True)
        coded = rows.drop(columns=label).apply(lambda c: c if c.dtype.kind in "if" else c.astype("category").cat.codes)
        fifth = len(rows) // 5
        base = HistGradientBoostingClassifier(random_state=0).fit(coded[:fifth], rows[label][:fifth])
        rest = rows[fifth:].assign(p=base.predict_proba(coded[fifth:])[:, 1])
        for bins_of in (8, 32, 128):
            options = BinningOptions(numeric_bins=bins_of, score_bins=bins_of)
            bins = fit_bins(rest, score_column="p", label=label, options=options)
            for share in (64, 16, 4, 2, 1):
                part = rest[: len(rest) // share]
                cells = len(aggregate(part, bins, label=label))
                found.append({"data": name, "features": len(bins), "bins": bins_of, "rows": len(part), "cells": cells})
                print(json.dumps(found[-1]), flush=True)
    return found


def main() -> None:
    """Run all steps on both kinds of data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[3_000_000, 12_000_000])
    parser.add_argument("--memory-limit", default="1GB")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "mbct-benchmark")
    parser.add_argument("--data", type=Path, help="Folder of real data, to measure how cells grow with rows.")
    parser.add_argument("--steps", nargs="+", default=list(STEPS), choices=list(STEPS))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    measured = []
    for n_rows in arguments.rows:
        for kind in ("correlated", "independent"):
            path = arguments.folder / f"{kind}-{n_rows}.parquet"
            if not path.exists():
                write_rows(path, kind, n_rows)
            for step in arguments.steps:
                results = context.Queue()
                process = context.Process(target=_measure, args=(step, path, arguments.memory_limit, results))
                process.start()
                found = {
                    "data": kind,
                    "data_rows": n_rows,
                    "file_mb": round(path.stat().st_size / 1e6),
                    **results.get(),
                }
                process.join()
                measured.append(found)
                print(json.dumps(found), flush=True)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    head = {"memory_limit": arguments.memory_limit, "processors": os.cpu_count()}
    grown = [] if arguments.data is None else growth(arguments.data)
    OUT.write_text(json.dumps({**head, "measured": measured, "growth": grown}, indent=1) + "\n")


if __name__ == "__main__":
    main()
