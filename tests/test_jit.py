"""Kernels are compiled once for an installation, and a terminal is told so."""

import os
import sys

import pytest

from terminal import on_terminal

CODE = "import numpy as np; from mbct.training.grouping import mix; print(mix(np.uint64(1)))"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_the_first_run_announces_compilation_and_the_second_is_silent(tmp_path, monkeypatch):
    monkeypatch.setitem(os.environ, "NUMBA_CACHE_DIR", str(tmp_path))
    first, second = (on_terminal([sys.executable, "-c", CODE], cwd=tmp_path).out for _ in range(2))
    assert first.count("compiling kernels, once") == 1
    assert "compiling" not in second
