"""Speed and memory beside peers and limits: every row of the table in docs/benchmarks.md.

    make bench                                         (sets up the peers and runs everything)
    python benchmarks/speed.py [--only predict fit] [--repeats 3] [--quick]

Each piece of work (``speed_work.py``) runs in a fresh process, ours and the peers in turns and alternating order, so
that whatever else the machine does meets all of them. A ratio is taken within a repeat; its median and range over the
repeats are reported. Results go part by part to ``docs/benchmarks/speed.json``, so that a run can be taken up again
with ``--only``; page and picture are drawn from that file. ``--quick`` takes tiny sizes and only shows that it runs.
"""

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from made_with import commit
from speed_data import parquet
from speed_page import write_page

HERE = Path(__file__).parent
OUT = Path("docs/benchmarks/speed.json")
LIBRARIES = ("mbct", "numpy", "numba", "scikit-learn", "lightgbm", "MCGrad", "polars", "duckdb", "pyarrow")
Work = tuple[str, dict[str, Any]]


@dataclass
class Comparison:
    """One row of the table: what was timed, the ratio to its peer, and whether the target is met.

    ``ratio`` is ours over the peer's seconds, or for ``speed_up`` the peer's over ours. ``also``: whether what the
    target asks for beside time (memory, gain kept, the same split) holds.
    """

    part: str
    work: str
    target: str
    ours: list[float]
    peer: str = ""
    theirs: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    speed_up: bool = False
    limit: float | None = None
    peak_mb: int | None = None
    peer_peak_mb: int | None = None
    note: str = ""
    also: bool = True

    @property
    def met(self) -> bool | None:
        """Whether the median meets the limit; None where there is none."""
        if self.limit is None:
            return None
        value = statistics.median(self.ratios or self.ours)
        return self.also and (value >= self.limit if self.speed_up else value <= self.limit)


class Bench:
    """Runs pieces of work in turns."""

    def __init__(self, folder: Path, repeats: int, *, quick: bool):
        self.folder, self.repeats, self.quick = folder, repeats, quick

    def rows(self, n_rows: int) -> int:
        """So many rows, few in quick mode."""
        return min(n_rows, 4_000) if self.quick else n_rows

    def run(self, work: Work) -> dict[str, Any]:
        """One piece of work in a fresh process."""
        name, arguments = work
        command = [sys.executable, str(HERE / "speed_work.py"), name, json.dumps(arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{name} {arguments} failed:\n{done.stderr[-2000:]}")
        found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        print(f"  {name} {arguments}: {json.dumps(found)}", flush=True)
        return found

    def in_turns(self, works: dict[str, Work], repeats: int | None = None) -> dict[str, list[dict[str, Any]]]:
        """All pieces, ``repeats`` times, in an order that turns round every time."""
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in works}
        for number in range(1 if self.quick else repeats or self.repeats):
            for name in works if number % 2 == 0 else reversed(works):
                found[name].append(self.run(works[name]))
        return found


def compare(part: str, work: str, target: str, found: Any, ours: str, peer: str = "", **more: Any) -> Comparison:
    """A row from the runs of two pieces of work."""
    mine, theirs = _seconds(found[ours]), _seconds(found[peer]) if peer else []
    pairs = zip(mine, theirs, strict=True)
    ratios = [b / a if more.get("speed_up") else a / b for a, b in pairs] if peer else []
    peaks = {"peak_mb": max(run["peak_mb"] for run in found[ours])}
    if peer:
        peaks["peer_peak_mb"] = max(run["peak_mb"] for run in found[peer])
    return Comparison(part, work, target, mine, peer, theirs, ratios, **peaks, **more)


def _seconds(runs: list[dict[str, Any]]) -> list[float]:
    return [run["seconds"] for run in runs]


def paper_rows(bench: Bench) -> Iterator[Comparison]:
    """The paper's preset from Parquet, beside the GROUP BY of the same file."""
    for kind, cells, limit, memory in (("independent", "11 M cells", 3.0, 3), ("correlated", "< 200 k cells", 2.0, 1)):
        path = str(parquet(bench.folder, bench.rows(12_000_000), kind))
        works: dict[str, Work] = {
            "mbct": ("paper_from_file", {"path": path}),
            "polars GROUP BY": ("group_by", {"path": path}),
        }
        found = bench.in_turns(works)
        made = found["polars GROUP BY"][0]["cells"]
        yield compare(
            "paper",
            f"paper preset from Parquet, 12 M rows, {cells}",
            f"≤ {limit:g} × GROUP BY, ≤ {memory} GB",
            found,
            "mbct",
            "polars GROUP BY",
            limit=limit,
            note=f"{made:,} cells, {found['mbct'][0]['trees']} trees, {found['mbct'][0]['rules']:,} rules",
            also=max(run["peak_mb"] for run in found["mbct"]) <= 1024 * memory,
        )


def fit_rows(bench: Bench) -> Iterator[Comparison]:
    """The default preset and its fast setting, rows in time order, beside LightGBM, MCGrad and isotonic regression."""
    yield from _fits(bench, 200_000, 3, 1.5)
    if not bench.quick:
        yield from _fits(bench, 1_000_000, 2, 1.0)


def large_fit_rows(bench: Bench) -> Iterator[Comparison]:
    """The same at 12 M rows, once: half an hour and more."""
    yield from _fits(bench, 12_000_000, 1, 0.5, "fit-large")


def _fits(bench: Bench, n_rows: int, repeats: int, limit: float, part: str = "fit") -> Iterator[Comparison]:
    """``limit``: of the default preset's time beside LightGBM of five folds of time, the peer of equal quality."""
    size = {"n_rows": bench.rows(n_rows)}
    works: dict[str, Work] = {
        "mbct": ("default_fit", size),
        FIVE_FOLDS: ("lightgbm_fit", {**size, "n_folds": 5}),
        "LightGBM": ("lightgbm_fit", {**size, "n_folds": 1}),
        "mbct fast": ("default_fit", {**size, **FAST}),
        "isotonic": ("isotonic_fit", size),
    }
    found = bench.in_turns(works, min(repeats, bench.repeats))
    loss = {name: runs[0]["log_loss"] for name, runs in found.items()}
    kept = (loss["isotonic"] - loss["mbct fast"]) / max(loss["isotonic"] - loss["mbct"], 1e-12)
    losses = ", ".join(f"{name} {value:.5f}" for name, value in loss.items())
    keeps = f"keeps {kept:.1%} of the gain over isotonic"
    label = f"{n_rows // 1000:,} k rows"
    for name, ours, peer, most, note in (
        ("default preset", "mbct", FIVE_FOLDS, limit, f"rows in time order, 120 days as blocks; {losses}"),
        ("default preset", "mbct", "LightGBM", 2.0, ""),
        ("fast setting", "mbct fast", "LightGBM", 0.5, keeps),
    ):
        also = {"also": kept >= 0.95} if ours == "mbct fast" else {}
        target = f"≤ {most:g} × {peer}{', keeps ≥ 95 % of the gain' if also else ''}"
        yield compare(part, f"{name}, {label}", target, found, ours, peer, limit=most, note=note, **also)
    if n_rows <= _MCGRAD_UP_TO and HAS_MCGRAD:
        found["MCGrad"] = [bench.run(("mcgrad_fit", size))] * len(found["mbct"])
        yield compare(
            part,
            f"default preset, {label}",
            "≤ 1/5 of MCGrad",
            found,
            "mbct",
            "MCGrad",
            limit=0.2,
            note=f"MCGrad's log loss {found['MCGrad'][0]['log_loss']:.5f}; fitted once",
        )


def command_rows(bench: Bench) -> Iterator[Comparison]:
    """What a person waits for on the command line, 100,000 rows of CSV."""
    for name in ("fit", "report", "advise"):
        arguments = {"folder": str(bench.folder), "n_rows": bench.rows(100_000), "name": name}
        found = bench.in_turns({name: ("command", arguments)})
        cpu = statistics.median(run["cpu"] for run in found[name])
        note = f"{cpu:.3g} s of the processors"
        yield compare("command", f"mbct {name}, CSV of 100 k rows", "≤ 6 s", found, name, limit=6.0, note=note)


def growth_rows(bench: Bench) -> Iterator[Comparison]:
    """Growth alone: closed form and Monte Carlo, rows, threads, refits from cells."""
    n_rows = 4_000 if bench.quick else 100_000
    works: dict[str, Work] = {
        "mbct": ("first_tree", {"n_rows": n_rows, "loss": "mvce"}),
        "Monte Carlo": ("first_tree", {"n_rows": n_rows, "loss": "mvce-monte-carlo"}),
    }
    found = bench.in_turns(works, 2)
    splits = [found[name][0]["first_split"] for name in works]
    yield compare(
        "growth",
        "one tree on flights, closed form",
        "≥ 100 × Monte Carlo (r = 100)",
        found,
        "mbct",
        "Monte Carlo",
        limit=100.0,
        speed_up=True,
        note=f"first split: {splits[0]} and {splits[1]}",
        also=splits[0] == splits[1],
    )
    small, large = bench.rows(1_000_000), bench.rows(12_000_000)
    works = {
        "small": ("paper_growth", {"n_rows": small, "n_threads": 2}),
        "large": ("paper_growth", {"n_rows": large, "n_threads": 2}),
        "one thread": ("paper_growth", {"n_rows": large, "n_threads": 1}),
    }
    found = bench.in_turns(works, 2)
    yield compare(
        "growth", "two threads, 12 M rows", "≥ 1.6 × one thread", found, "large", "one thread", limit=1.6, speed_up=True
    )
    yield _exponent(found, large / small)
    for preset, n, limit in (("paper", 2_000_000, 1.0), ("default", 200_000, 3.0)):
        found = bench.in_turns({"mbct": ("refit", {"n_rows": bench.rows(n), "preset": preset})})
        cells = found["mbct"][0]["cells"]
        work, note = f"refit from cells, {preset} preset", f"{cells:,} cells"
        yield compare("growth", work, f"≤ {limit:g} s", found, "mbct", note=note, limit=limit)


def _exponent(found: dict[str, list[dict[str, Any]]], times: float) -> Comparison:
    """How seconds a tree grow with rows: log(time ratio)/log(row ratio)."""
    each = {name: [run["seconds"] / max(run["trees"], 1) for run in runs] for name, runs in found.items()}
    pairs = zip(each["large"], each["small"], strict=True)
    ratios = [math.log(large / small) / math.log(times) if times > 1 else 0.0 for large, small in pairs]
    work = "growth from 1 M to 12 M rows, exponent"
    return Comparison("growth", work, "≤ 1.05", each["large"], "1 M rows", each["small"], ratios, limit=1.05)


def predict_rows(bench: Bench) -> Iterator[Comparison]:
    """Prediction from coded arrays and raw columns; one row in process."""
    folder = str(bench.folder)
    bench.run(("models", {"folder": folder, "n_rows": bench.rows(200_000)}))
    many, some, few = bench.rows(12_000_000), bench.rows(1_000_000), bench.rows(100_000)
    works: dict[str, Work] = {
        "mbct coded": ("predict_codes", {"folder": folder, "n_rows": many}),
        "LightGBM coded": ("predict_lightgbm_codes", {"folder": folder, "n_rows": some}),
        "copy": ("copy", {"n_rows": many}),
        "mbct raw": ("predict_raw", {"folder": folder, "n_rows": many}),
        "mbct raw, polars": ("predict_raw", {"folder": folder, "n_rows": many, "library": "polars"}),
        "LightGBM raw": ("predict_lightgbm_raw", {"folder": folder, "n_rows": some}),
    }
    found = bench.in_turns(works)
    if HAS_MCGRAD:
        once = bench.run(("predict_mcgrad", {"n_rows": few}))
        found["MCGrad raw"] = [dict(once) for _ in found["copy"]]
    for runs in found.values():
        for run in runs:
            run["seconds"] *= 1e9 / run["rows"]
    for ours, peer, limit in (
        ("mbct coded", "LightGBM coded", 10.0),
        ("mbct raw", "LightGBM raw", 10.0),
        ("mbct raw, polars", "LightGBM raw", 10.0),
        ("mbct raw", "MCGrad raw", 100.0),
        ("mbct coded", "copy", 0.05),
    ):
        if peer not in found:
            continue
        target = f"≥ {limit:g} × {peer.split()[0]}"
        note = f"ns a row; {found[ours][0]['trees']} trees"
        name = f"predict, {ours.removeprefix('mbct ')}"
        yield compare("predict", name, target, found, ours, peer, limit=limit, speed_up=True, note=note)
    found = bench.in_turns({"mbct": ("single_row", {"folder": folder, "n_rows": bench.rows(20_000)})})
    for run in found["mbct"]:
        run["seconds"] = run["p50_us"]
    p99 = statistics.median(run["p99_us"] for run in found["mbct"])
    yield compare(
        "predict", "single row in process, median", "≤ 5 µs", found, "mbct", limit=5.0, note=f"µs; p99 {p99:.1f} µs"
    )


def metric_rows(bench: Bench) -> Iterator[Comparison]:
    """MVCE by Monte Carlo beside a numpy loop."""
    n_rows = bench.rows(10_000_000)
    works: dict[str, Work] = {
        "mbct": ("mvce_views", {"n_rows": n_rows}),
        "numpy loop": ("permutation_loop", {"n_rows": n_rows, "n_views": 5}),
    }
    found = bench.in_turns(works)
    yield compare(
        "metric",
        "MVCE, 10 M rows, r = 100",
        "≥ 5 × a numpy loop",
        found,
        "mbct",
        "numpy loop",
        limit=5.0,
        speed_up=True,
        note="the loop ran 5 views, scaled up",
    )


def start_rows(bench: Bench) -> Iterator[Comparison]:
    """What a fresh process pays."""
    found = bench.in_turns({"import": ("imports", {}), "first fit": ("first_fit", {})})
    yield compare("start", "import of the calibrator beyond scikit-learn", "≤ 0.5 s", found, "import", limit=0.5)
    yield compare("start", "first fit beyond the second, kernels cached", "≤ 1 s", found, "first fit", limit=1.0)


FAST = {"preset": "fast"}
FIVE_FOLDS = "LightGBM, five folds of time"
HAS_MCGRAD = find_spec("mcgrad") is not None
_MCGRAD_UP_TO = 200_000
"""Rows; more would take it many minutes."""
PARTS: dict[str, Callable[[Bench], Iterator[Comparison]]] = {
    "start": start_rows,
    "predict": predict_rows,
    "paper": paper_rows,
    "growth": growth_rows,
    "metric": metric_rows,
    "command": command_rows,
    "fit": fit_rows,
    "fit-large": large_fit_rows,
}


def machine() -> dict[str, Any]:
    """Where the figures come from."""
    versions = {}
    for library in LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:
            continue
    return {"cores": os.cpu_count(), "python": platform.python_version(), "versions": versions}


def main() -> None:
    """Measure the chosen parts and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), help="parts to measure again")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one repeat: only that it runs")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "mbct-benchmark")
    parser.add_argument("--out", type=Path, default=OUT, help="the page is written beside the folder of this file")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(arguments.out.read_text())["rows"] if arguments.out.exists() else []
    bench = Bench(arguments.folder, arguments.repeats, quick=arguments.quick)
    for part in arguments.only:
        print(part, flush=True)
        measured = [asdict(row) | {"met": row.met, "commit": commit()} for row in PARTS[part](bench)]
        kept = [row for row in kept if row["part"] != part] + measured
        kept.sort(key=lambda row: list(PARTS).index(row["part"]))
        arguments.out.write_text(json.dumps({"machine": machine(), "rows": kept}, indent=1, ensure_ascii=False) + "\n")
    write_page(arguments.out)


if __name__ == "__main__":
    main()
