"""What the limit of two million cells costs the default preset: held-out loss with it and without.

    python benchmarks/thinning.py --rows 5000000 12000000
    python benchmarks/thinning.py --flights ../shared/data     # three million departures in time order

Simulated rows (``speed_data.py``) have a known truth, whose loss no model can beat: what lies between it and the model
bounds what more cells could bring. Each fit runs in a process of its own and prints its loss, seconds and peak memory.
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

from quality_peers import row_losses, sigmoid
from speed_data import bias, frame, keys_of

LIMITS = (500_000, 1_000_000, 2_000_000, 1_000_000_000)
"""Cells that trees grow on at most; the last is no limit."""
HELD_OUT_SEED = 12_345


def simulated(n_rows: int) -> dict[str, Any]:
    """Rows to fit on and to evaluate on, no blocks, and the loss of the truth."""
    table, label = frame(1_000_000, "independent", HELD_OUT_SEED)
    p = table["p"].to_numpy()
    truth = sigmoid(np.log(p) - np.log1p(-p) + bias(keys_of(table)))
    train, y = frame(n_rows, "independent", 0)
    return {"fit": (train, y), "evaluate": (table, label), "time": None, "truth": row_losses(truth, label).mean()}


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
    return {"fit": (fit, y), "evaluate": evaluated, "time": table.block[chosen[0]], "truth": None}


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
        "rows": len(rows["fit"][1]),
        "most_cells": most_cells,
        "log_loss": float(row_losses(model.calibrate(table), label).mean()),
        "base": float(row_losses(table["p"].to_numpy(), label).mean()),
        "truth": rows["truth"],
        "trees": len(model.model_.trees),
        "seconds": round(seconds, 1),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
    }


def main() -> None:
    """One line of JSON for each fit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="*", default=[])
    parser.add_argument("--flights", type=Path, help="folder of flights_2001.parquet")
    parser.add_argument("--limits", type=int, nargs="*", default=LIMITS)
    arguments = parser.parse_args()
    if len(arguments.limits) == 1 and len(arguments.rows) + bool(arguments.flights) == 1:
        rows = flights(arguments.flights) if arguments.flights else simulated(arguments.rows[0])
        print(json.dumps(fit_once(rows, arguments.limits[0])), flush=True)
        return
    works = [["--rows", str(n)] for n in arguments.rows]
    works += [["--flights", str(arguments.flights)]] if arguments.flights else []
    for work in works:
        for limit in arguments.limits:
            subprocess.run([sys.executable, __file__, *work, "--limits", str(limit)], check=True)


if __name__ == "__main__":
    main()
