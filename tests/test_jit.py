"""Kernels are compiled once for an installation, and a terminal is told so."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import mbct
from processes import without_privileges
from terminal import on_terminal

CODE = "import numpy as np; from mbct.stats.random_stream import mix; print(mix(np.uint64(1)))"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_the_first_run_announces_compilation_and_the_second_is_silent(tmp_path, monkeypatch):
    monkeypatch.setitem(os.environ, "NUMBA_CACHE_DIR", str(tmp_path))
    first, second = (on_terminal([sys.executable, "-c", CODE], cwd=tmp_path).out for _ in range(2))
    assert first.count("compiling kernels, once") == 1
    assert "compiling" not in second


@pytest.mark.skipif(sys.platform == "win32", reason="needs the permissions of POSIX")
@pytest.mark.parametrize("temporary", [True, False])
def test_an_unprivileged_user_without_a_home_can_compile(tmp_path, temporary):
    """A read-only installation in a container: neither the package nor a home folder can be written."""
    package, home, temporaries = (tmp_path / name for name in ("site", "home", "tmp"))
    shutil.copytree(Path(mbct.__file__).parent, package / "mbct", ignore=shutil.ignore_patterns("__pycache__"))
    home.mkdir()
    temporaries.mkdir()
    read_only = [home, *(folder for folder in [package, *package.rglob("*")] if folder.is_dir())]
    for folder in [*read_only, *([] if temporary else [temporaries])]:
        folder.chmod(0o555)
    # Python looks for other temporary folders by itself: it is told of this one alone.
    code = f"import tempfile; tempfile.tempdir = {str(temporaries)!r}; {CODE}; import mbct.calibrators.mbct"
    environment = {"PYTHONPATH": str(package), "HOME": str(home), "PATH": os.environ["PATH"]}
    command = [*without_privileges(), sys.executable, "-B", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd="/")
    for folder in [*read_only, temporaries]:
        folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().isdigit()
    assert done.stderr.count("RuntimeWarning: compiled kernels") == 1
    kept = list(temporaries.rglob("*.nbi"))
    assert ("are kept in" in done.stderr, bool(kept)) == (temporary, temporary)


def test_a_cache_that_others_can_write_is_not_used(tmp_path, monkeypatch):
    from mbct import jit

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = jit._temporary_cache()
    assert folder is not None
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    assert jit._temporary_cache() is None
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    assert jit._temporary_cache() is None
