"""Runs of whole experiments: what is written, that it is the same twice, that it goes on after an interruption."""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import reproduction as experiments
from mbct.errors import DataError, ParameterError
from reproduction import registry
from reproduction.__main__ import main
from reproduction.datasets import LOADERS
from reproduction.datasets.flights import flights_are_installed
from reproduction.offline import measure as offline
from reproduction.page import render
from reproduction.parts import SECONDS
from reproduction.reproduce import plan
from reproduction.settings import Settings


def small_data(folder: Path) -> Path:
    """A folder with Criteo's file alone, made up: a label that follows the categories."""
    rng = np.random.default_rng(0)
    n = 4000
    columns = {f"cat{i}": rng.integers(0, 5, n) for i in (1, 4, 6, 8, 9)}
    rate = 0.1 + 0.1 * columns["cat1"] + 0.05 * columns["cat9"]
    folder.mkdir(exist_ok=True)
    pl.DataFrame({**columns, "click": (rng.random(n) < rate).astype(np.int8)}).write_parquet(
        folder / "criteo_attribution.parquet"
    )
    return folder


def written(out: Path) -> dict[str, bytes]:
    """Everything but seconds."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and "timings" not in path.parts
    }


@pytest.fixture
def made_up(monkeypatch):
    """Without the flights, which come with a package: only made-up data are left."""
    monkeypatch.delitem(LOADERS, "flights")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run on made-up data: its folder and that of the data."""
    folder = tmp_path_factory.mktemp("reproduction")
    data = small_data(folder / "data")
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(LOADERS, "flights")
        experiments.run(["table", "in-depth"], quick=True, out=folder / "out", data=data, seed=3)
    return folder / "out", data


def test_the_same_seed_writes_the_same_bytes(tmp_path, made_up, finished):
    out, data = finished
    experiments.run(["table", "in-depth"], quick=True, out=tmp_path, data=data, seed=3)
    first = written(out)
    assert written(tmp_path) == first
    assert "figures/in-depth-bin-sizes.svg" in first
    assert "tables/main-criteo.md" in first
    page = first["README.md"].decode()
    assert "## 2. The main table" in page
    assert "## 4." not in page
    content = json.loads(first["data/offline/criteo-0.json"])
    assert content["parameters"]["seed"] == 3
    assert set(content["versions"]) >= {"python", "mbct", "numpy", "lightgbm"}


def test_every_link_of_the_page_is_there(finished):
    out, _ = finished
    page = (out / "README.md").read_text()
    links = [line.split("](")[1].rstrip(")") for line in page.splitlines() if line.startswith("![")]
    assert len(links) == 4
    assert all((out / link).is_file() for link in links)


def test_a_page_is_written_from_the_files_alone(tmp_path, finished):
    out, _ = finished
    shutil.copytree(out / "data", tmp_path / "data")
    shutil.copy(out / "run.json", tmp_path)
    render(tmp_path)
    assert written(tmp_path) == written(out)


def test_files_of_other_code_are_not_rendered_in_silence(tmp_path, finished):
    out, _ = finished
    shutil.copytree(out / "data", tmp_path / "data")
    with pytest.raises(DataError, match=r"run\.json is missing"):
        render(tmp_path)
    shutil.copy(out / "run.json", tmp_path)
    path = tmp_path / "data/offline/criteo-0.json"
    content = json.loads(path.read_text())
    del content["result"]["methods"]
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"KeyError: 'methods'.*run the experiments again"):
        render(tmp_path)


TINY = {
    "metrics": {"n": 60, "bins": [4, 8], "repetitions": 2, "views": 3},
    "table": {"n_rows": 1500},
    "in-depth": {"n_rows": 1500},
    "auction": {"views": 150, "rest_views": 600, "days": 1, "min_bin_size": 200},
    "complexity": {"fixed": {"rows": 300, "features": 2, "trees": 1, "depth": 1}, "values": [1, 2], "best_of": 1},
}
"""Parameters that make every part small."""


@pytest.mark.parametrize("name", experiments.NAMES)
def test_every_experiment_gives_the_same_json_for_the_same_seed(name, tmp_path, made_up):
    data = small_data(tmp_path / "data")

    def computed(seed: int) -> dict[str, str]:
        results = {}
        parts = registry.EXPERIMENTS[name].parts(Settings(True, seed, data, 1))
        for part in [part for part in parts if "first-price" not in part.name]:
            *others, parameters = part.compute.args
            tiny = {key: value for key, value in TINY[name].items() if key in parameters}
            if part.name == "rows":
                tiny["values"] = [300, 600]
            result = part.compute.func(*others, {**parameters, **tiny})
            assert (SECONDS in result) == part.timed
            result.pop(SECONDS, None)
            results[part.name] = json.dumps(result, sort_keys=True, allow_nan=False)
        return results

    first = computed(3)
    assert first == computed(3)
    assert all(first[part] != other for part, other in computed(4).items() if part != "trees")


def test_a_plan_counts_what_is_left(tmp_path, made_up, finished, capsys):
    out, data = finished
    planned = plan(["table", "in-depth"], quick=True, out=tmp_path, data=data, seed=3)
    assert str(planned).startswith("1 parts to compute, about 1 min")
    assert planned.n_kept == 0
    done = plan(["table"], quick=True, out=out, data=data, seed=3)
    assert (done.waiting, done.n_kept, done.seconds) == ((), 1, 0)
    assert main(["table", "--quick", "--plan", "--seed", "3", "--out", str(out), "--data", str(data)]) == 0
    assert "0 parts to compute" in capsys.readouterr().out


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, made_up, monkeypatch):
    data = small_data(tmp_path / "data")
    options = {"quick": True, "out": tmp_path / "out", "data": data, "repetitions": 2}
    measured = []
    measure = offline._measure

    def interrupted(folder, parameters):
        measured.append(parameters["repetition"])
        if len(measured) == 2:
            raise KeyboardInterrupt
        return measure(folder, parameters)

    monkeypatch.setattr(offline, "_measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        experiments.run(["table"], **options)
    assert not (tmp_path / "out" / "README.md").exists()
    experiments.run(["table"], **options)
    assert measured == [0, 1, 1]
    assert "split 2 times at random" in (tmp_path / "out" / "README.md").read_text()


def test_names_are_those_of_the_registry():
    assert tuple(registry.EXPERIMENTS) == experiments.NAMES


def test_an_unknown_name_is_refused(tmp_path, capsys):
    with pytest.raises(ParameterError, match="unknown experiment 'tables'; choose metrics"):
        experiments.run(["tables"], out=tmp_path)
    assert main(["tables", "--out", str(tmp_path)]) == 1
    assert "unknown experiment" in capsys.readouterr().err


def test_full_and_quick_parts_never_share_a_key(tmp_path):
    data = small_data(tmp_path / "data")
    for experiment in registry.EXPERIMENTS.values():
        quick, full = ({p.key for p in experiment.parts(Settings(q, 0, data, 1))} for q in (True, False))
        assert quick
        assert not quick & full


def test_the_offline_parts_cover_every_present_data_set(tmp_path):
    data = small_data(tmp_path / "data")
    found = {part.parameters["dataset"] for part in offline.parts(Settings(True, 0, data, 1))}
    assert found == ({"criteo", "flights"} if flights_are_installed() else {"criteo"})
