from pathlib import Path

from reproduction import NAMES
from terminal import mbct, mbct_on_terminal


def test_help_names_every_experiment(tmp_path: Path):
    text = " ".join(mbct_on_terminal("reproduce", "--help", cwd=tmp_path).out.split())
    assert all(name in text for name in NAMES)


def test_an_unknown_name(tmp_path: Path):
    done = mbct("reproduce", "miracles", "--quick", "--out", "out", cwd=tmp_path)
    assert done.code == 2
    assert "miracles" in done.err
    assert "unexpected" not in done.err
