"""publish, rollback and serve, with a real Redis."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from mbct import load_model
from mbct.store import CellStore, ModelRegistry
from terminal import ENTRY_POINT, mbct, mbct_on_terminal

ROW = {"device": "mobile", "night": True, "site": "s1", "age": 30, "pctr": 0.1}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, process: "subprocess.Popen[bytes]", seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert process.poll() is None, "it ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError(f"nothing listens on port {port}")


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed: apt-get install redis-server")
    pytest.importorskip("redis", reason="redis is not installed: pip install 'mbct[redis]'")
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path), "--save", ""]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    wait_for(port, process)
    yield f"redis://127.0.0.1:{port}"
    process.terminate()
    process.wait(timeout=30)


@contextlib.contextmanager
def service(*arguments: str, cwd: Path, token: str = "") -> Iterator[str]:
    """The address of ``mbct serve``, which is told to stop at the end and must then end well."""
    pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'mbct[serve]'")
    port = free_port()
    process = subprocess.Popen(
        [str(ENTRY_POINT), "serve", *arguments, "--port", str(port)],
        cwd=cwd,
        env={**os.environ, "MBCT_TOKEN": token},
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(port, process)
        yield f"http://127.0.0.1:{port}"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def score(address: str, token: str = "") -> float:
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {token}"} if token else {})}
    request = urllib.request.Request(f"{address}/v1/score", json.dumps({"rows": [ROW]}).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return float(json.load(answer)["calibrated"][0])


def test_publish_serve_and_roll_back(folder: Path, tmp_path: Path, redis_url: str):
    mbct("fit", folder / "clicks.parquet", "--preset", "paper", "--set", "max_trees=1", "-o", "one.json", cwd=tmp_path)
    first = json.loads(mbct("publish", folder / "paper.json", redis_url, "--json", cwd=tmp_path).out)["version"]
    second = mbct_on_terminal("publish", "one.json", redis_url, "--note", "one tree", cwd=tmp_path)
    assert second.code == 0
    assert "is in service" in second.out
    back = json.loads(mbct("rollback", redis_url, "--json", cwd=tmp_path).out)
    assert back == {"name": "default", "version": first}
    expected = load_model(folder / "paper.json").calibrate({name: [value] for name, value in ROW.items()})[0]
    with service(redis_url, cwd=tmp_path) as address:
        assert score(address) == pytest.approx(expected, abs=1e-12)


def test_a_service_of_a_store_follows_its_rollback(folder: Path, tmp_path: Path):
    fit = ["fit", folder / "clicks.parquet", "--preset", "paper", "--set", "max_trees=1", "-o", "one.json"]
    assert mbct(*fit, cwd=tmp_path).code == 0
    registry = ModelRegistry(CellStore(tmp_path / "cells"))
    expected = {}
    for path in (folder / "paper.json", tmp_path / "one.json"):
        version = registry.publish(path.read_bytes())
        expected[version] = load_model(path).calibrate({name: [value] for name, value in ROW.items()})[0]
    first, second = expected
    assert expected[first] != expected[second]
    with service("cells", "--poll", "0.1", cwd=tmp_path) as address:
        assert score(address) == pytest.approx(expected[second], abs=1e-12)
        assert json.loads(mbct("rollback", "cells", "--json", cwd=tmp_path).out)["version"] == first
        end = time.monotonic() + 20
        while score(address) != pytest.approx(expected[first], abs=1e-12):
            assert time.monotonic() < end
            time.sleep(0.1)


def test_serve_a_file_with_a_token(folder: Path):
    token = "correct horse battery staple"
    expected = load_model(folder / "paper.json").calibrate({name: [value] for name, value in ROW.items()})[0]
    with service("paper.json", cwd=folder, token=token) as address:
        assert score(address, token) == pytest.approx(expected, abs=1e-12)
        with pytest.raises(urllib.error.HTTPError) as refused:
            score(address, "wrong horse battery staple")
        assert refused.value.code == 401
        refused.value.close()


@pytest.mark.parametrize(
    "arguments",
    [
        ["publish", "paper.json", "redis://127.0.0.1:1"],
        ["publish", "isotonic.json", "redis://127.0.0.1:1"],
        ["rollback", "redis://127.0.0.1:1"],
        ["serve", "absent.json", "--port", "0"],
        ["serve", "paper.json", "--port", "99999"],
    ],
)
@pytest.mark.parametrize("run", [mbct, mbct_on_terminal])
def test_bad_input_is_one_line(folder: Path, arguments: list[str], run):
    pytest.importorskip("redis", reason="redis is not installed: pip install 'mbct[redis]'")
    done = run(*arguments, cwd=folder)
    assert done.code == 2
    lines = [line for line in (done.out + done.err).splitlines() if line.strip()]
    assert lines[-1].startswith("mbct: ")
    assert "unexpected" not in lines[-1]
    assert "Traceback" not in done.out + done.err
