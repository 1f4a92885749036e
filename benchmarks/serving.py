"""How fast scoring is: single rows in process, and the service beside a handler that does nothing.

    python benchmarks/serving.py [--seconds 3] [--rounds 5] [--out docs/benchmarks]

The service and the do-nothing handler run at once, each in its own uvicorn, and are measured in turns, so that whatever
else the machine does meets both. Load comes from this process over raw sockets (32 connections for single rows, 4 for
batches), on the same cores. A ratio is taken within a round. Writes ``serving.json`` and, from it, ``serving.md``.
"""

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

NEEDED = ("psutil", "uvicorn", "httptools", "uvloop", "msgspec", "pyarrow")
if absent := [name for name in NEEDED if find_spec(name) is None]:
    raise SystemExit(f"benchmarks/serving.py needs {', '.join(absent)}: pip install '.[bench]'")

# Imported only now, so that what is absent is named first.
import numpy as np  # noqa: E402

from made_with import write_page  # noqa: E402
from mbct.model.file import dump_document  # noqa: E402
from mbct.progress import progress  # noqa: E402
from mbct.serving.batch import BatchScorer  # noqa: E402
from mbct.serving.row import RowScorer  # noqa: E402
from serving_load import in_turns, servers  # noqa: E402
from serving_model import bodies, distilled_model, random_rows  # noqa: E402
from serving_page import page  # noqa: E402

TREES = (8, 32)
LEAVES = 32
ROWS = 1000


def in_process(repeats: int) -> list[dict[str, Any]]:
    """Latency of `score_row`, and of batches of dicts; the models in turns."""
    models = {n_trees: distilled_model(n_trees, LEAVES) for n_trees in TREES}
    rows = {n_trees: random_rows(model, ROWS) for n_trees, model in models.items()}
    single = {n_trees: RowScorer(model).score_row for n_trees, model in models.items()}
    batch = {n_trees: BatchScorer(model).score_rows for n_trees, model in models.items()}
    taken: dict[int, list[int]] = {n_trees: [] for n_trees in TREES}
    batches: dict[int, list[float]] = {n_trees: [] for n_trees in TREES}
    for _ in range(repeats):
        for n_trees in TREES:
            score = single[n_trees]
            for row in rows[n_trees]:
                began = time.perf_counter_ns()
                score(row)
                taken[n_trees].append(time.perf_counter_ns() - began)
            began = time.perf_counter_ns()
            batch[n_trees](rows[n_trees])
            batches[n_trees].append((time.perf_counter_ns() - began) / ROWS)
    return [
        {
            "trees": n_trees,
            "leaves": LEAVES,
            "features": len(models[n_trees].bins),
            "row_p50_us": float(np.percentile(taken[n_trees], 50)) / 1000,
            "row_p99_us": float(np.percentile(taken[n_trees], 99)) / 1000,
            "batch_row_us": statistics.median(batches[n_trees]) / 1000,
        }
        for n_trees in TREES
    ]


def service(seconds: float, rounds: int) -> list[dict[str, Any]]:
    """The service and the do-nothing handler in turns, request by request."""
    model = distilled_model(TREES[0], LEAVES)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        path.write_bytes(dump_document({"method": "mbct", "state": {"model": model.to_dict()}}))
        requests = bodies(random_rows(model, ROWS))
        with servers(path) as pair, progress("service", len(requests)) as advance:
            for name, (body, kind, n_rows) in requests.items():
                connections = 32 if n_rows == 1 else 4
                turns = in_turns(pair, body, kind, connections, seconds, rounds)
                found.append(
                    {
                        "request": name,
                        "rows": n_rows,
                        "connections": connections,
                        "service": [ours._asdict() for ours, _ in turns],
                        "nothing": [theirs._asdict() for _, theirs in turns],
                    }
                )
                advance(1)
    return found


def machine() -> dict[str, Any]:
    """Where the figures come from."""
    libraries = ("mbct", "numpy", "numba", *NEEDED[1:])
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load_average": os.getloadavg()[0],
        "versions": {name: version(name) for name in libraries},
    }


def main() -> None:
    """Measure, write the figures and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one measurement")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each kind")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"), help="folder of figures and page")
    arguments = parser.parse_args()
    results = {
        "machine": machine(),
        "seconds": arguments.seconds,
        "rounds": arguments.rounds,
        "in_process": in_process(20),
        "service": service(arguments.seconds, arguments.rounds),
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    if (figures := arguments.out / "serving.json").exists() and "earlier" in (kept := json.loads(figures.read_text())):
        results["earlier"] = kept["earlier"]
    (arguments.out / "serving.json").write_text(json.dumps(results, indent=1) + "\n")
    write_page(arguments.out / "serving.md", page(results))
    print(page(results))


if __name__ == "__main__":
    main()
