"""Two servers at once, and the load that measures them in turns."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

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


class Server(NamedTuple):
    """A server under measurement."""

    port: int
    process: subprocess.Popen[bytes]


class Turn(NamedTuple):
    """What one server did in one turn."""

    requests_a_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    """Processor time of the server a request, which hangs less on what else the machine does than the rate."""


@contextmanager
def servers(model: Path) -> Iterator[tuple[Server, Server]]:
    """The service and the handler that does nothing."""
    started = []
    try:
        for code in (SERVICE, NOTHING):
            port = _free_port()
            started.append(Server(port, subprocess.Popen([sys.executable, "-c", code, str(port), str(model)])))
        for server in started:
            _wait_for(server.port)
        yield started[0], started[1]
    finally:
        for server in started:
            server.process.terminate()
            server.process.wait()


def in_turns(
    pair: tuple[Server, Server], body: bytes, kind: str, connections: int, seconds: float, rounds: int
) -> list[tuple[Turn, Turn]]:
    """Measure both servers in each round, after a warm-up, the one and then the other first."""
    for server in pair:
        drive(server.port, body, kind, connections, 0.3)
    found = []
    for number in range(rounds):
        turns: list[Turn] = []
        for server in pair if number % 2 == 0 else pair[::-1]:
            before = _cpu_seconds(server.process.pid)
            taken = np.array(drive(server.port, body, kind, connections, seconds))
            cpu = (_cpu_seconds(server.process.pid) - before) / len(taken) * 1e6
            p50, p99 = (np.percentile(taken, [50, 99]) * 1000).tolist()
            turns.append(Turn(len(taken) / seconds, p50, p99, cpu))
        found.append((turns[0], turns[1]) if number % 2 == 0 else (turns[1], turns[0]))
    return found


def drive(port: int, body: bytes, kind: str, connections: int, seconds: float) -> list[float]:
    """Latencies of all requests that ``connections`` could make one after another in some seconds."""
    head = f"POST /v1/score HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    try:
        import uvloop
    except ImportError:
        return asyncio.run(_drive(port, head.encode() + body, connections, seconds))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_drive(port, head.encode() + body, connections, seconds))


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
