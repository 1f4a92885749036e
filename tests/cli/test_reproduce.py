from pathlib import Path

from reproduction import NAMES
from terminal import mbct


def test_it_says_how_to_run_every_experiment(tmp_path: Path):
    done = mbct("reproduce", cwd=tmp_path)
    assert done.code == 0
    assert "pip install --editable '.[reproduce]'" in done.out
    assert "python -m reproduction all" in done.out
    assert all(name in done.out for name in NAMES)
