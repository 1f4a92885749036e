"""Runs of whole experiments: what is written, that it is the same twice, that it goes on after an interruption."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from mbct import experiments
from mbct.errors import ParameterError
from mbct.experiments import parts as parts_module
from mbct.experiments import registry
from mbct.experiments.__main__ import main
from mbct.experiments.auction import measure as auction
from mbct.experiments.datasets import LOADERS
from mbct.experiments.offline import measure as offline
from mbct.experiments.parts import Part, finish, kept
from mbct.experiments.settings import Settings


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


def test_the_same_seed_writes_the_same_bytes(tmp_path, made_up):
    data = small_data(tmp_path / "data")
    names = ["table", "in-depth"]
    for folder in ("a", "b"):
        experiments.run(names, quick=True, out=tmp_path / folder, data=data, seed=3)
    first, second = written(tmp_path / "a"), written(tmp_path / "b")
    assert first == second
    assert "figures/in-depth-bin-sizes.svg" in first
    assert "tables/main-criteo.md" in first
    page = first["README.md"].decode()
    assert "## 2. The main table" in page
    assert "## 4." not in page
    content = json.loads(first["data/offline/criteo-0.json"])
    assert content["parameters"]["seed"] == 3
    assert set(content["versions"]) >= {"python", "mbct", "numpy", "lightgbm"}


def test_every_link_of_the_page_is_there(tmp_path, made_up):
    data = small_data(tmp_path / "data")
    page = experiments.run(["table", "in-depth"], quick=True, out=tmp_path / "out", data=data).read_text()
    links = [line.split("](")[1].rstrip(")") for line in page.splitlines() if line.startswith("![")]
    assert len(links) == 4
    assert all((tmp_path / "out" / link).is_file() for link in links)


def test_market_parts_depend_on_their_parameters_alone():
    parameters = {
        "pricing": "second-price",
        "market": 0,
        "seed": 0,
        "views": 200,
        "rest_views": 1500,
        "days": 2,
        "min_bin_size": 200,
    }
    first, second = auction._test(parameters), auction._test(parameters)
    assert json.dumps(first) == json.dumps(second)
    assert {len(days) for days in first["days"].values()} == {2}
    assert json.dumps(auction._test({**parameters, "seed": 1})) != json.dumps(first)


def test_a_finished_part_is_not_computed_again(tmp_path):
    calls = []

    def compute():
        calls.append(1)
        return {"value": 1.5}

    part = Part("e", "p", {"n": 1}, compute)
    assert finish(part, tmp_path) == finish(part, tmp_path) == {"value": 1.5}
    assert len(calls) == 1
    changed = Part("e", "p", {"n": 2}, compute)
    assert kept(changed, tmp_path) is None
    finish(changed, tmp_path)
    assert len(calls) == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe"])
def test_a_damaged_part_is_computed_again(tmp_path, content):
    part = Part("e", "p", {}, lambda: {"value": 2})
    path = part.path(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert finish(part, tmp_path) == {"value": 2}


def test_other_versions_make_another_key(monkeypatch):
    part = Part("e", "p", {}, dict)
    before = part.key
    monkeypatch.setattr(parts_module, "versions", lambda: {"numpy": "0"})
    assert part.key != before


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
    assert {"criteo"} <= found <= {"criteo", "flights"}
