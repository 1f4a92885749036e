"""Seconds of ``mbct fit`` and ``mbct predict`` by number of rows, into docs/performance.md.

    python benchmarks/sizes.py                      # 10 k, 100 k, 1 M and 10 M rows
    python benchmarks/sizes.py --rows 10000,100000  # some of them; the others keep the figures that they have

What a person waits for on the command line, start of the process included, kernels compiled before; the median of three
runs up to 100,000 rows, one run beyond. The rows are those of ``benchmarks/speed_data.py``.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from speed_data import N_FEATURES, TEXT, parquet

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "benchmarks" / "sizes.json"
PAGE = ROOT / "docs" / "performance.md"
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
MANY = 100_000
"""Rows beyond which one run must do."""
PRESETS = ("default", "fast", "paper")
START, END = "<!-- seconds by rows, written by benchmarks/sizes.py -->", "<!-- end of seconds by rows -->"


def measure(n_rows: int, folder: Path, repeats: int) -> dict[str, Any]:
    """Seconds of each command on a file of so many rows, and the machine's load before."""
    data, load = parquet(folder, n_rows, "correlated"), os.getloadavg()[0]
    roles = ("--label", "y", "--score", "p")
    seconds = {
        f"fit, {preset}": _seconds(repeats, "fit", data, *roles, "--preset", preset, "-o", folder / f"{preset}.json")
        for preset in PRESETS
    }
    seconds["predict"] = _seconds(repeats, "predict", folder / "default.json", data, "-o", folder / "out.parquet")
    return {"rows": n_rows, "load": round(load, 1), "cores": os.cpu_count(), "seconds": seconds}


def _seconds(repeats: int, *arguments: str | Path) -> tuple[float, float]:
    """By the clock, and of the processors; medians."""
    command = [Path(sys.executable).with_name("mbct"), *arguments]
    taken = []
    for _ in range(repeats):
        began, used = time.perf_counter(), _processor_seconds()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
        taken.append((time.perf_counter() - began, _processor_seconds() - used))
    by_clock, of_processors = (round(median(each), 2) for each in zip(*taken, strict=True))
    return by_clock, of_processors


def _processor_seconds() -> float:
    """Of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(figures: list[dict[str, Any]]) -> str:
    """The table that opens the page, and what it was measured on."""
    loads = ", ".join(f"{each['load']:g}" for each in figures)
    rows = [("seconds for … rows", *(f"{each['rows']:,}" for each in figures)), ("---",) * (1 + len(figures))]
    rows += [(work, *(_shown(each["seconds"][work]) for each in figures)) for work in figures[0]["seconds"]]
    lines = [
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        "`mbct fit` and `mbct predict` from Parquet to file, start of the process included: seconds by the clock, in",
        "brackets those of the processors, which other work on the machine changes less.",
        f"{N_FEATURES} features, {len(TEXT)} of them text; {figures[0]['cores']} cores, load before each",
        f"column {loads}. Made by `python benchmarks/sizes.py`.",
    ]
    return "\n".join(lines)


def _shown(seconds: Sequence[float]) -> str:
    by_clock, of_processors = (f"{each:.0f}" if each >= 10 else f"{each:.1f}" for each in seconds)
    return f"{by_clock} ({of_processors})"


def write(figures: list[dict[str, Any]]) -> None:
    """Keep the figures and put the table into the page."""
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{START}\n\n{table(figures)}\n\n{END}{after}", encoding="utf-8")


def main() -> None:
    """Measure the numbers of rows that are asked for and keep the others."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(map(str, SIZES)), help="numbers of rows between commas")
    asked = [int(text) for text in parser.parse_args().rows.split(",")]
    known = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else []
    by_rows = {each["rows"]: each for each in known}
    with tempfile.TemporaryDirectory(prefix="mbct-sizes-") as folder:
        for n_rows in asked:
            by_rows[n_rows] = measure(n_rows, Path(folder), repeats=3 if n_rows <= MANY else 1)
            print(by_rows[n_rows])
            write([by_rows[n] for n in sorted(by_rows)])


if __name__ == "__main__":
    main()
