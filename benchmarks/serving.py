"""How fast scoring is: single rows in process, and the service beside a handler that does nothing.

    python benchmarks/serving.py [--seconds 3] [--rounds 3]

The service and the do-nothing handler run at once, each in its own uvicorn, and are measured in turns, so that whatever
else the machine does meets both. Load comes from this process over raw sockets (32 connections for single rows, 4 for
batches), on the same cores. Ratios are medians over the rounds.
"""

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np
import psutil

from mbct.binning.features import CategoryBins, FeatureBins, NumberBins
from mbct.boosting.document import dump_document
from mbct.boosting.model import CalibrationEnsemble
from mbct.serving.batch import BatchScorer
from mbct.serving.row import RowScorer
from mbct.tree.model import CalibrationTree

NOTHING = """
import sys, uvicorn
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-type", b"application/json"), (b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"{}"})
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=False, proxy_headers=False, log_level="error")
"""
SERVICE = """
import logging, sys
logging.basicConfig(level=logging.WARNING)
from mbct.serving import ServiceOptions, serve
serve(sys.argv[2], options=ServiceOptions(port=int(sys.argv[1])))
"""


def distilled_model(n_trees: int, n_leaves: int, seed: int = 0) -> CalibrationEnsemble:
    """A model of the size that distillation gives: 8 features, half of them numbers of 128 bins."""
    rng = np.random.default_rng(seed)
    features: list[NumberBins | CategoryBins] = [
        NumberBins("score", tuple((np.sort(rng.choice(np.arange(1, 1000), 127, False)) / 1000.0).tolist()))
    ]
    for j in range(7):
        if j % 2:
            features.append(CategoryBins(f"category_{j}", tuple(f"value-{i}" for i in range(200))))
        else:
            features.append(NumberBins(f"number_{j}", tuple(np.sort(rng.normal(size=127)).tolist())))
    bins = FeatureBins(tuple(features))
    return CalibrationEnsemble("score", "odds", bins, tuple(_tree(rng, bins, n_leaves) for _ in range(n_trees)))


def _tree(rng: np.random.Generator, bins: FeatureBins, n_leaves: int) -> CalibrationTree:
    feature, start, tables, leaves, filled = [-1], [0], [], [0], 0
    while len(leaves) < n_leaves:
        node = leaves.pop(int(rng.integers(len(leaves))))
        chosen = int(rng.integers(len(bins)))
        n_codes, first = bins[chosen].n_codes, len(feature)
        if bins[chosen].ordered:
            table = first + (np.arange(n_codes) >= rng.integers(1, n_codes - 2))
        else:
            table = first + rng.integers(0, 2, n_codes)
        feature[node], start[node] = chosen, filled
        tables.append(table)
        filled += n_codes
        feature += [-1, -1]
        start += [0, 0]
        leaves += [first, first + 1]
    n = len(feature)
    return CalibrationTree(
        np.array(feature, np.int32),
        np.array(start, np.int64),
        np.concatenate(tables).astype(np.int32),
        rng.normal(0.0, 0.1, n).round(9),
        np.full(n, 100.0),
        np.full(n, 30.0),
        np.full(n, 31.0),
    )


def random_rows(model: CalibrationEnsemble, n_rows: int, seed: int = 1) -> list[dict[str, float | str]]:
    """Rows with a few unseen values."""
    rng = np.random.default_rng(seed)
    rows = []
    for score in rng.beta(0.6, 2.0, n_rows).tolist():
        row: dict[str, float | str] = {"score": score}
        for feature in model.bins.features[1:]:
            row[feature.name] = float(rng.normal()) if feature.ordered else f"value-{rng.integers(205)}"
        rows.append(row)
    return rows


def in_process() -> None:
    """Latency of `score_row`, and of batches of 1,000 rows."""
    print("in process                       row p50 [µs]   row p99 [µs]   batch of 1,000 dicts [µs a row]")
    for n_trees in (8, 32):
        model = distilled_model(n_trees, 32)
        rows = random_rows(model, 1000)
        score, batch = RowScorer(model).score_row, BatchScorer(model)
        taken = []
        for _ in range(20):
            for row in rows:
                began = time.perf_counter_ns()
                score(row)
                taken.append(time.perf_counter_ns() - began)
        batches = []
        for _ in range(50):
            began = time.perf_counter_ns()
            batch.score_rows(rows)
            batches.append((time.perf_counter_ns() - began) / len(rows))
        p50, p99 = np.percentile(taken, [50, 99]) / 1000
        each = statistics.median(batches) / 1000
        print(f"{n_trees:3d} trees × 32 leaves, 8 features {p50:12.2f} {p99:14.2f} {each:16.2f}")


async def _drive(port: int, request: bytes, connections: int, seconds: float) -> list[float]:
    taken: list[float] = []
    end = time.perf_counter() + seconds

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
        while (began := time.perf_counter()) < end:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(head.decode())
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            taken.append(time.perf_counter() - began)
        writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return taken


def drive(port: int, body: bytes, kind: str, connections: int, seconds: float) -> list[float]:
    """Latencies of all requests that ``connections`` could make one after another in some seconds."""
    head = f"POST /v1/score HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    try:
        import uvloop
    except ImportError:
        return asyncio.run(_drive(port, head.encode() + body, connections, seconds))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_drive(port, head.encode() + body, connections, seconds))


def bodies(rows: list[dict[str, float | str]]) -> dict[str, tuple[bytes, str, int]]:
    """Requests to be measured: body, content type, rows."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    made = {
        "one row, JSON": (msgspec.json.encode({"rows": rows[:1]}), "application/json", 1),
        "1,000 rows, JSON rows": (msgspec.json.encode({"rows": rows}), "application/json", len(rows)),
        "1,000 rows, JSON columns": (msgspec.json.encode({"columns": columns}), "application/json", len(rows)),
        "1,000 rows, MessagePack": (msgspec.msgpack.encode({"columns": columns}), "application/msgpack", len(rows)),
    }
    try:
        import pyarrow as pa
    except ImportError:
        return made
    table = pa.table(columns)
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    made["1,000 rows, Arrow"] = (out.getvalue().to_pybytes(), "application/vnd.apache.arrow.stream", len(rows))
    return made


def service(seconds: float, rounds: int) -> None:
    """The service and the do-nothing handler in turns."""
    model = distilled_model(8, 32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        path.write_bytes(dump_document({"method": "mbct", "state": {"model": model.to_dict()}}))
        ports = [_free_port(), _free_port()]
        processes = [
            subprocess.Popen([sys.executable, "-c", SERVICE, str(ports[0]), str(path)]),
            subprocess.Popen([sys.executable, "-c", NOTHING, str(ports[1])]),
        ]
        try:
            for port in ports:
                _wait_for(port)
            print("\nthe service, 8 trees × 32 leaves (in brackets: a handler that does nothing)")
            print(f"{'':26s}   requests/s      rows/s  p50 [ms]  p99 [ms]  rate ratio  p99 ratio  CPU [µs]")
            for name, (body, kind, n_rows) in bodies(random_rows(model, 1000)).items():
                connections = 32 if n_rows == 1 else 4
                found = _in_turns(ports, processes, body, kind, connections, seconds, rounds)
                rate, p50, p99, share, p99_ratio, cpu, cpu_nothing = found
                print(
                    f"{name:26s} {rate:12,.0f} {rate * n_rows:11,.0f} {p50:9.2f} {p99:9.2f} {share:11.2f} "
                    f"{p99_ratio:10.2f} {cpu:7,.0f} ({cpu_nothing:,.0f})"
                )
        finally:
            for process in processes:
                process.terminate()
                process.wait()


def _in_turns(
    ports: list[int],
    processes: list[subprocess.Popen[bytes]],
    body: bytes,
    kind: str,
    connections: int,
    seconds: float,
    rounds: int,
) -> list[float]:
    """Medians over the rounds: rate, p50, p99, ratios of rate and p99, CPU time a request of both processes."""
    for port in ports:
        drive(port, body, kind, connections, 0.3)
    found = []
    for number in range(rounds):
        taken, cpu = {}, {}
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            before = _cpu_seconds(processes[which].pid)
            taken[which] = np.array(drive(ports[which], body, kind, connections, seconds))
            cpu[which] = (_cpu_seconds(processes[which].pid) - before) / len(taken[which]) * 1e6
        ours, nothing = taken[0], taken[1]
        p50, p99 = np.percentile(ours, [50, 99]) * 1000
        p99_ratio = p99 / (np.percentile(nothing, 99) * 1000)
        found.append((len(ours) / seconds, p50, p99, len(ours) / len(nothing), p99_ratio, cpu[0], cpu[1]))
    return [float(statistics.median(column)) for column in zip(*found, strict=True)]


def _cpu_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"nothing answers on port {port}")


def main() -> None:
    """Run everything and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one measurement")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each kind")
    arguments = parser.parse_args()
    print(json.dumps({"cores": os.cpu_count(), "load_average": os.getloadavg()}))
    in_process()
    service(arguments.seconds, arguments.rounds)


if __name__ == "__main__":
    main()
