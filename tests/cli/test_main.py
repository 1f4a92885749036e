"""Help, exit codes, errors, interruption: what all commands share."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mbct import __version__
from mbct.calibrators import DirichletCalibrator
from mbct.cli.main import COMMANDS
from terminal import ENTRY_POINT, mbct, mbct_on_terminal


def test_help_imports_nothing_heavy():
    script = (
        "import sys; from mbct.cli.main import main; main(['--help']); "
        "print([m for m in ('numba', 'sklearn', 'pandas', 'numpy', 'pyarrow', 'duckdb') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_lists_every_command(tmp_path: Path):
    done = mbct("--help", cwd=tmp_path)
    assert done.code == 0
    listed = {line.split()[0] for line in done.out.split("Commands:")[1].splitlines() if line.startswith("  ")}
    assert set(COMMANDS) <= listed
    assert "..." not in done.out.split("Commands:")[1]


@pytest.mark.parametrize(
    "command", [*sorted(set(COMMANDS) - {"cells"}), "cells aggregate", "cells merge", "cells window"]
)
@pytest.mark.parametrize("run", [mbct, mbct_on_terminal])
def test_every_command_has_help_with_examples(command: str, run, tmp_path: Path):
    done = run(*command.split(), "--help", cwd=tmp_path)
    assert done.code == 0
    assert f"mbct {command}" in done.out.split("Examples:")[1]


def test_version(tmp_path: Path):
    assert mbct("--version", cwd=tmp_path).out.strip() == f"mbct, version {__version__}"


def test_wrong_use_is_one_line_and_code_2(tmp_path: Path):
    for arguments in (
        ["fly"],
        ["fit", "--labl", "x"],
        ["fit", "missing.parquet", "-o", "m.json"],
        ["rules", "no.json"],
    ):
        done = mbct(*arguments, cwd=tmp_path)
        assert done.code == 2
        assert done.out == ""
        assert len(done.err.splitlines()) == 1, done.err
        assert done.err.startswith("mbct: ")


def test_debug_shows_the_traceback(tmp_path: Path):
    assert "Traceback" in mbct("rules", "no.json", "--debug", cwd=tmp_path).err
    assert "Traceback" in mbct("--debug", "rules", "no.json", cwd=tmp_path).err


def test_a_closed_pipe_is_no_error(folder: Path):
    process = subprocess.Popen(
        [str(ENTRY_POINT), "simulate", "--rows", "200000", "-o", "-"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 141


def test_interruption_leaves_nothing_behind(folder: Path, tmp_path: Path):
    """Reading from a pipe that never ends: the temporary copy must go, and no model may appear."""
    work = tmp_path / "work"
    work.mkdir()
    process = subprocess.Popen(
        [str(ENTRY_POINT), "fit", "-", "-o", "model.json"],
        cwd=work,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        # A test run in the background has SIGINT ignored, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdin is not None
    process.stdin.write((folder / "clicks.csv").read_bytes())
    process.stdin.flush()
    end = time.monotonic() + 60
    while not list(tmp_path.glob("mbct-*/stdin")):
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    out, err = process.communicate()
    assert out == b""
    assert err.decode().strip() == "mbct: interrupted"
    assert list(tmp_path.iterdir()) == [work]
    assert list(work.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [["compare", "x.csv"], ["advise", "x.csv"], ["simulate"]], ids=lambda arguments: arguments[0]
)
def test_a_negative_seed_is_refused_by_name(arguments: list[str], tmp_path: Path):
    done = mbct(*arguments, "--seed", "-1", cwd=tmp_path)
    assert done.code == 2
    assert "--seed" in done.err
    assert "unexpected" not in done.err


def test_settings_that_a_method_lacks_are_named(tmp_path: Path):
    done = mbct("refresh", "--store", "store", "--set", "trees=3", cwd=tmp_path)
    assert done.code == 2
    assert "method 'mbct' has no parameter 'trees'; it has alpha, " in done.err


def test_a_model_of_many_classes_is_refused_where_one_probability_is_meant(tmp_path: Path):
    scores = np.random.default_rng(0).dirichlet([1.0, 1.0, 1.0], 60)
    DirichletCalibrator().fit(scores, np.arange(60) % 3).save(tmp_path / "many.json")
    done = mbct("certify", "many.json", "x.csv", cwd=tmp_path)
    assert done.code == 2
    assert "many.json calibrates 3 classes at once" in done.err
