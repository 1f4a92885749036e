"""The real things: redis-server and the service itself, each in a process of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from builders import random_model
from processes import content_of, free_port, redis_server, wait_until  # noqa: F401 - fixtures are found by name


class Service:
    """`serve(...)` in a process of its own, its log in a file."""

    def __init__(self, folder: Path, arguments: str, port=None) -> None:
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_file = folder / f"service-{self.port}-{time.monotonic_ns()}.log"
        code = (
            "from pathlib import Path; from mbct.serving.options import *; from mbct.serving.server import serve; "
            f"serve({arguments}, options=ServiceOptions(port={self.port}, poll_seconds=0.1, token=TOKEN, "
            "workers=WORKERS, limits=LIMITS, feedback=FEEDBACK))"
        )
        self.code = code
        self.folder = folder
        self.process = None

    def start(self, token=None, limits="Limits()", feedback="FeedbackOptions()", ready=True, path=None, workers=1):
        code = self.code.replace("TOKEN", repr(token)).replace("LIMITS", limits).replace("FEEDBACK", feedback)
        code = code.replace("WORKERS", str(workers))
        source = str(Path(__file__).resolve().parents[2] / "src")
        environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{path}" if path else source}
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen([sys.executable, "-c", code], stdout=log, stderr=log, env=environment)
        try:
            wait_until(lambda: self._answers(b"200" if ready else b""), 120, "the service")  # kernels are compiled once
        except AssertionError as error:
            raise AssertionError(f"{error}; log: {self.log}") from error
        return self

    def _answers(self, status):
        if self.process.poll() is not None:
            raise AssertionError(f"the service ended: {self.log}")
        with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
            connection.sendall(b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            return status in connection.recv(64)

    @property
    def log(self):
        return self.log_file.read_text()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=30)
        return self.process.returncode

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def start_service(tmp_path):
    """Start services that are stopped at the end."""
    pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'mbct[serve]'")
    started = []

    def start(arguments, port=None, **settings):
        service = Service(tmp_path, arguments, port)
        started.append(service)
        return service.start(**settings)

    yield start
    for service in started:
        service.stop()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """One service with a random model, shared by a module's tests; ``service.model`` is its ensemble."""
    pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'mbct[serve]'")
    folder = tmp_path_factory.mktemp("service")
    model = random_model(1, n_trees=4)
    (folder / "model.json").write_bytes(content_of(model))
    started = Service(folder, repr(str(folder / "model.json")))
    started.model = model
    yield started.start(
        feedback="FeedbackOptions(segment='text_1', segments=3)",
        limits="Limits(rows=500, body_bytes=200_000, body_seconds=1, header_seconds=1)",
    )
    started.stop()


@pytest.fixture
def content():
    """The function that writes an ensemble as a model file's bytes."""
    return content_of


@pytest.fixture
def eventually():
    """The function that waits for a condition."""
    return wait_until


@pytest.fixture
def model_file(tmp_path):
    """A model file of a random model."""
    path = tmp_path / "model.json"
    path.write_bytes(content_of(random_model(1, n_trees=4)))
    return path
