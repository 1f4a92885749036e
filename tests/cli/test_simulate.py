import hashlib
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from mbct.simulation import BETA_SETTINGS, KINDS, simulate
from terminal import mbct, mbct_on_terminal


@pytest.mark.parametrize("kind", KINDS)
def test_seeded(kind: str, tmp_path: Path):
    for name in ("a.parquet", "b.parquet"):
        assert mbct("simulate", kind, "--rows", "500", "--seed", "3", "-o", name, cwd=tmp_path).code == 0
    assert mbct("simulate", kind, "--rows", "500", "--seed", "4", "-o", "c.parquet", cwd=tmp_path).code == 0
    digests = [hashlib.sha256((tmp_path / f"{n}.parquet").read_bytes()).digest() for n in "abc"]
    assert digests[0] == digests[1] != digests[2]


def test_truth_is_a_column_only_on_request(tmp_path: Path):
    mbct("simulate", "beta-third", "--rows", "500", "--truth", "-o", "t.parquet", cwd=tmp_path)
    table = parquet.read_table(tmp_path / "t.parquet")
    np.testing.assert_allclose(table["truth"].to_numpy(), table["score"].to_numpy() ** 3)
    assert mbct("simulate", "--rows", "2", "-o", "-", cwd=tmp_path).out.splitlines()[0].endswith("pctr,click")


def test_labels_follow_the_truth():
    for kind in KINDS:
        simulation = simulate(kind, 200_000, seed=1)
        rate = simulation.columns[simulation.label].mean()
        assert abs(rate - simulation.truth.mean()) < 4 * np.sqrt(0.25 / 200_000)


def test_mean_of_the_beta_settings():
    for kind, setting in BETA_SETTINGS.items():
        mean = simulate(kind, 200_000).columns["score"].mean()
        assert mean == pytest.approx(setting.a / (setting.a + setting.b), abs=0.005)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_all_rows_reach_a_slow_reader(tmp_path: Path, unbuffered: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    assert len(mbct("simulate", "--rows", "50000", "-o", "-", cwd=tmp_path).out.splitlines()) == 50_001


def test_bad_input_and_terminal(tmp_path: Path):
    assert mbct("simulate", "weather", "-o", "x.csv", cwd=tmp_path).code == 2
    assert mbct("simulate", "--rows", "0", "-o", "x.csv", cwd=tmp_path).code == 2
    done = mbct_on_terminal("simulate", "--rows", "10", "-o", "x.csv", cwd=tmp_path)
    assert (done.code, done.out.strip()) == (0, "wrote 10 rows to x.csv")
