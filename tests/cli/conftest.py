"""A folder with simulated clicks and two models, made once by the commands themselves."""

from pathlib import Path

import pytest

from terminal import mbct


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("cli")
    for arguments in (
        ["simulate", "--rows", "4000", "-o", "clicks.parquet"],
        ["simulate", "--rows", "4000", "-o", "clicks.csv"],
        ["fit", "clicks.parquet", "--preset", "paper", "--set", "min_bin_size=200", "-o", "paper.json"],
        ["simulate", "--rows", "3000", "--seed", "1", "-o", "holdout.parquet"],
        ["certify", "paper.json", "holdout.parquet", "--attach", "certified.json"],
        ["fit", "clicks.parquet", "--method", "isotonic", "-o", "isotonic.json"],
    ):
        done = mbct(*arguments, cwd=made)
        assert done.code == 0, done.err
    return made
