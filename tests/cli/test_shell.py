"""Names that are nearly right, and what the shell completes."""

import os
import subprocess
from pathlib import Path

import pytest

from terminal import ENTRY_POINT, mbct


@pytest.mark.parametrize(
    ("arguments", "proposal"),
    [
        (["fti", "x.csv"], "unknown command 'fti'; did you mean 'fit'?"),
        (["zzz"], "unknown command 'zzz'; there are fit, predict, evaluate"),
        (["fit", "x.csv", "--method", "isotnic", "-o", "m.json"], "unknown method 'isotnic'; did you mean 'isotonic'?"),
        (["export", "m.json", "--to", "onx"], "unknown target 'onx'; did you mean 'onnx'?"),
    ],
)
def test_the_nearest_name_is_proposed(arguments: list[str], proposal: str, tmp_path: Path):
    done = mbct(*arguments, cwd=tmp_path)
    assert done.code == 2
    assert proposal in done.err


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("mbct fi", "plain,fit"),
        ("mbct fit x.csv --method iso", "plain,isotonic"),
        ("mbct fit x.csv --preset fa", "plain,fast"),
        ("mbct export m.json --to on", "plain,onnx"),
        ("mbct fit cli", "file,cli"),
        ("mbct predict mod", "file,mod"),
        ("mbct report m.json x.csv -o rep", "file,rep"),
    ],
)
def test_the_shell_completes_names_and_files(typed: str, offered: str, tmp_path: Path):
    words = typed.split()
    environment = {"_MBCT_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [str(ENTRY_POINT)], env={**os.environ, **environment}, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [offered]
