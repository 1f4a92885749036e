"""What the limit on the cells that trees grow on costs the default preset: held-out loss with it and without.

    python benchmarks/subsampling.py --rows 2000000 5000000
    python benchmarks/subsampling.py --flights ../shared/data     # three million departures in time order

Simulated rows (``speed_data.py``) have a known truth, whose loss no model can beat: what lies between it and the model
bounds what more cells could bring. Each fit runs in a process of its own. Results are kept line by line in
``docs/benchmarks/subsampling.jsonl``, and ``subsampling.md`` is written from them; ``--page`` only writes the page.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from made_with import write_page
from mbct.progress import progress
from quality_page import kept_results
from quality_peers import row_losses, sigmoid
from speed_data import bias, frame, keys_of

LIMITS = (500_000, 1_000_000, 2_000_000, 1_000_000_000)
"""Cells that trees grow on at most; the last is no limit."""
HELD_OUT_SEED = 12_345
OUT = Path("docs/benchmarks")


def simulated(n_rows: int) -> dict[str, Any]:
    """Rows to fit on and to evaluate on, no blocks, and the loss of the truth."""
    table, label = frame(1_000_000, "independent", HELD_OUT_SEED)
    p = table["p"].to_numpy()
    truth = sigmoid(np.log(p) - np.log1p(-p) + bias(keys_of(table)))
    train, y = frame(n_rows, "independent", 0)
    loss = float(row_losses(truth, label).mean())
    return {"data": "simulated", "fit": (train, y), "evaluate": (table, label), "time": None, "truth": loss}


def flights(folder: Path) -> dict[str, Any]:
    """Departures of 2001: scores of January's rates by hour, calibrated on February to May, evaluated on June."""
    from quality_data import flights_2001

    table = flights_2001(folder)
    month, label = table.frame["month"].to_numpy(), table.label
    first = month == 1
    rates = np.bincount(table.frame["hour"][first], label[first], 24) + 20 * label[first].mean()
    rates /= np.bincount(table.frame["hour"][first], minlength=24) + 20
    columns = table.frame.drop(columns=["month", "day", "day_of_year"])
    columns["p"] = rates[table.frame["hour"].to_numpy()]
    chosen = [(month >= 2) & (month <= 5), month == 6]
    (fit, y), evaluated = ((columns[rows].reset_index(drop=True), label[rows]) for rows in chosen)
    time_of_fit = table.block[chosen[0]]
    return {"data": "departures", "fit": (fit, y), "evaluate": evaluated, "time": time_of_fit, "truth": None}


def fit_once(rows: dict[str, Any], most_cells: int) -> dict[str, Any]:
    """The full ensemble grown on at most so many cells."""
    from mbct import MBCTCalibrator
    from mbct.training.trainer import PRESETS

    preset = PRESETS["default"]
    PRESETS["default"] = replace(preset, growth=replace(preset.growth, most_cells=most_cells))
    began = time.perf_counter()
    model = MBCTCalibrator("p", model_size="full").fit(*rows["fit"], time=rows["time"])
    seconds = time.perf_counter() - began
    table, label = rows["evaluate"]
    return {
        "data": rows["data"],
        "rows": len(rows["fit"][1]),
        "most_cells": most_cells,
        "log_loss": float(row_losses(model.calibrate(table), label).mean()),
        "base": float(row_losses(table["p"].to_numpy(), label).mean()),
        "truth": rows["truth"],
        "trees": len(model.model_.trees),
        "seconds": round(seconds, 1),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
    }


def page(results: list[dict[str, Any]]) -> str:
    """Loss by rows and limit, as Markdown."""
    lines = [
        "# What it costs to grow on a sample of the cells",
        "Made by `python benchmarks/subsampling.py`. Above `most_cells` cells the default preset grows its trees on a "
        "random sample of them; every row counts in the bins. Held-out log loss of the full ensemble with several "
        "limits, and the share that it keeps of the gain without a limit and, for simulated rows, of the gain of the "
        "truth. Seconds and peak memory are of the whole fit, on a machine with two cores that did other work too.",
    ]
    for key in dict.fromkeys((r["data"], r["rows"]) for r in results):
        found = [r for r in results if (r["data"], r["rows"]) == key]
        base, truth = found[0]["base"], found[0]["truth"]
        best = next((r["log_loss"] for r in found if r["most_cells"] >= r["rows"]), None)
        known = f", {truth:.5f} with the truth" if truth is not None else ""
        lines.append(f"## {key[1]:,} {key[0]} rows\n\nLog loss {base:.5f} before{known}.")
        rows = [
            "| trees grow on | log loss | of the gain without a limit | of the truth's gain | trees | seconds | peak |"
        ]
        rows.append("|---" * 7 + "|")
        for r in found:
            gain = base - r["log_loss"]
            limit = "all cells" if r["most_cells"] >= r["rows"] else f"{r['most_cells']:,} cells"
            shares = ["–" if other is None else f"{gain / (base - other):.1%}" for other in (best, truth)]
            cost = f"{r['trees']:,} | {r['seconds']:.0f} | {r['peak_gb']:.1f} GB"
            rows.append(f"| {limit} | {r['log_loss']:.5f} | {' | '.join(shares)} | {cost} |")
        lines.append("\n".join(rows))
    return "\n\n".join(lines) + "\n"


def main() -> None:
    """Run what is missing, each fit in a process of its own, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="*", default=[])
    parser.add_argument("--flights", type=Path, help="folder of flights_2001.parquet")
    parser.add_argument("--limits", type=int, nargs="*", default=LIMITS)
    parser.add_argument("--one", action="store_true", help="one fit, printed as JSON")
    parser.add_argument("--page", action="store_true", help="only write the page")
    arguments = parser.parse_args()
    if arguments.one:
        rows = flights(arguments.flights) if arguments.flights else simulated(arguments.rows[0])
        print(json.dumps(fit_once(rows, arguments.limits[0])))
        return
    works = [] if arguments.page else [["--rows", str(n)] for n in arguments.rows]
    works += [["--flights", str(arguments.flights)]] if arguments.flights and not arguments.page else []
    kept = OUT / "subsampling.jsonl"
    with progress("subsampling", len(works) * len(arguments.limits)) as advance:
        for work in works:
            for limit in arguments.limits:
                command = [sys.executable, __file__, "--one", *work, "--limits", str(limit)]
                printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                with kept.open("a") as log:
                    log.write(printed)
                advance(1)
    found = {(r["data"], r["rows"], r["most_cells"]): r for r in kept_results(kept)}
    write_page(OUT / "subsampling.md", page([found[key] for key in sorted(found)]))


if __name__ == "__main__":
    main()
