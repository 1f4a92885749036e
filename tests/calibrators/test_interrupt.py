"""Ctrl-C during a fit ends it soon and leaves nothing behind: no fitted look, no thread, no file."""

import os
import signal
import subprocess
import sys
import time

import pytest

CHILD = """
import sys, threading
import numpy as np
from mbct import MBCTCalibrator
rng = np.random.default_rng(0)
def draw(n):
    X = np.column_stack([rng.random(n), rng.integers(0, 50, (n, 6))])
    return X, (rng.random(n) < 0.6 * X[:, 0] + 0.2 * np.sin(X[:, 1] * X[:, 2]) ** 2).astype(float)
MBCTCalibrator(0, max_trees=3).fit(*draw(3000))
model, data = MBCTCalibrator(0), draw(400_000)
threads = threading.active_count()
print("fitting", flush=True)
try:
    model.fit(*data)
    print("finished")
except KeyboardInterrupt:
    print("interrupted", hasattr(model, "classes_"), threading.active_count() - threads)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_an_interrupted_fit_leaves_nothing_behind(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        assert child.stdout.readline() == "fitting\n"
        time.sleep(1.0)
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        output, _ = child.communicate(timeout=60)
        assert time.monotonic() - began < 20
    finally:
        child.kill()
        child.wait()
    assert output == "interrupted False 0\n"
    assert not list(tmp_path.iterdir())
