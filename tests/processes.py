"""Real processes for tests: a redis-server on a free port, commands without privileges."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from mbct.model.file import dump_document


def content_of(model):
    """The model file's bytes of an ensemble."""
    return dump_document({"method": "mbct", "state": {"model": model.to_dict()}})


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition, seconds=15.0, what="the condition"):
    """Poll until ``condition()`` is true; its last value."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if found := condition():
                return found
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come true within {seconds} s")


def without_privileges():
    """What runs a command as a user whom permissions bind; root without capabilities is one."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root is bound by no permissions without setpriv: apt-get install util-linux")
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]


class RedisServer:
    """A redis-server with an append-only file, which can be killed and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.process = folder, free_port(), None
        self.url = f"redis://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        command += ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_until(self._answers, what="redis-server")

    def _answers(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()


@pytest.fixture
def redis_server(tmp_path):
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed: apt-get install redis-server")
    pytest.importorskip("redis", reason="redis is not installed: pip install 'mbct[redis]'")
    folder = tmp_path / "redis"
    folder.mkdir()
    server = RedisServer(folder)
    yield server
    server.stop()
