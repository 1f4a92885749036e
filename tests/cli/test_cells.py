"""cells, refresh and the way back, on two simulated days."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from mbct import MBCTCalibrator, load_model
from mbct.calibrators.persistence import dumps
from mbct.data import aggregate, fit_bins
from mbct.stats.probabilities import logit, sigmoid
from mbct.store import CellStore, ModelRegistry
from terminal import mbct, mbct_on_terminal


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("days")
    for number in (1, 2):
        rows = ["--rows", "4000", "--seed", str(number)]
        assert mbct("simulate", *rows, "-o", f"{number}.parquet", cwd=made).code == 0
        added = mbct(
            "cells", "aggregate", f"{number}.parquet", "--store", "cells", "--day", f"2024-05-0{number}", cwd=made
        )
        assert added.code == 0, added.err
        assert added.out.startswith("4,000 rows of 2024-05-0")
    return made


def test_a_batch_counts_once(days: Path):
    again = ["cells", "aggregate", "2.parquet", "--store", "cells", "--day", "2024-05-02", "--json"]
    assert json.loads(mbct(*again, cwd=days).out)["rows"] == 4000
    assert ", which the store held already" in mbct(*again[:-1], cwd=days).out
    whole = json.loads(mbct("cells", "window", "--store", "cells", "--json", cwd=days).out)
    assert (whole["rows"], whole["first_day"], whole["last_day"]) == (8000, "2024-05-01", "2024-05-02")


def test_old_days_fade(days: Path, tmp_path: Path):
    target = tmp_path / "window.parquet"
    options = ["--store", "cells", "--half-life", "1", "-o", target, "--json"]
    faded = json.loads(mbct("cells", "window", *options, cwd=days).out)
    assert faded["rows"] == pytest.approx(6000)
    assert parquet.read_table(target).num_rows == faded["cells"]


def test_refresh_promotes_then_evaluates_and_goes_back(days: Path):
    first = mbct("refresh", "--store", "cells", "--set", "preset=paper", "--json", "-o", "model.json", cwd=days)
    assert first.code == 0, first.err
    assert json.loads(first.out)["promoted"]
    assert load_model(days / "model.json").preset == "paper"
    same = mbct_on_terminal("refresh", "--store", "cells", "--require", "better", cwd=days)
    assert same.code == 1, "the same model is not better than itself"
    assert "kept: " in same.out
    (in_service,) = {json.loads(first.out)["in_service"], ModelRegistry(CellStore(str(days / "cells"))).in_service()}
    assert in_service is not None
    # Any other model, put into service by hand: rolling back must bring the first one's very bytes back.
    other = MBCTCalibrator("pctr", preset="paper", max_trees=1).fit(parquet.read_table(days / "1.parquet"), "click")
    replaced = ModelRegistry(CellStore(str(days / "cells"))).publish(dumps(other), "to be rolled back")
    assert replaced != in_service
    back = json.loads(mbct("rollback", "cells", "--json", cwd=days).out)
    assert back["version"] == in_service
    again = mbct("refresh", "--store", "cells", "--require", "better", "-o", "served.json", cwd=days)
    assert again.code == 1
    assert (days / "served.json").read_bytes() == (days / "model.json").read_bytes()
    assert f"version {replaced}" in mbct("rollback", "cells", "--to", replaced, cwd=days).out
    registry = ModelRegistry(CellStore(str(days / "cells")))
    assert registry.read(str(registry.in_service())) == dumps(other)


def test_merge(days: Path):
    done = mbct_on_terminal("cells", "merge", "--store", "cells", cwd=days)
    assert done.code == 0
    assert "8,000 rows of 2 days in 2 files" in done.out


def test_the_same_file_name_on_two_days_is_two_batches(days: Path, tmp_path: Path):
    """Two days' `part.parquet`, the second after a merge: none may take the place of the other."""
    for number, day in ((1, "13"), (2, "14")):
        (tmp_path / day).mkdir()
        shutil.copy(days / f"{number}.parquet", tmp_path / day / "part.parquet")
    aggregate = ["cells", "aggregate", "--store", "cells", "--day", "2024-05-13"]
    assert mbct(*aggregate, "13/part.parquet", cwd=tmp_path).code == 0
    assert mbct("cells", "merge", "--store", "cells", cwd=tmp_path).code == 0
    assert mbct(*aggregate, "14/part.parquet", cwd=tmp_path).code == 0
    assert mbct(*aggregate, "14/part.parquet", cwd=tmp_path).code == 0
    status = json.loads(mbct("cells", "status", "--store", "cells", "--json", cwd=tmp_path).out)
    assert [(day["day"], day["rows"], len(day["batches"])) for day in status["days"]] == [("2024-05-13", 8000, 2)]
    shutil.copy(days / "1.parquet", tmp_path / "14" / "part.parquet")
    refused = mbct(*aggregate, "14/part.parquet", cwd=tmp_path)
    assert refused.code == 2
    assert "other rows than these" in refused.err
    assert mbct(*aggregate, "14/part.parquet", "--replace", cwd=tmp_path).code == 0
    whole = json.loads(mbct("cells", "window", "--store", "cells", "--json", cwd=tmp_path).out)
    first = parquet.read_table(days / "1.parquet")["click"].to_numpy().mean()
    assert (whole["rows"], whole["label_rate"]) == (8000, pytest.approx(first))


def test_status_and_verify(days: Path, tmp_path: Path):
    store = shutil.copytree(days / "cells", tmp_path / "cells")
    shown = mbct("cells", "status", "--store", "cells", cwd=tmp_path).out
    assert shown.splitlines()[0].split() == ["day", "batches", "rows", "positives", "age"]
    assert shown.splitlines()[1].split()[:3] == ["2024-05-01", "1", "4,000"]
    verify = ["cells", "verify", "--store", "cells"]
    assert mbct("cells", "merge", "--store", "cells", cwd=tmp_path).code == 0
    assert "0 faults" in mbct(*verify, cwd=tmp_path).out
    (damaged, *_) = sorted((store / "cells").rglob("*.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    found = mbct(*verify, "--json", cwd=tmp_path)
    assert found.code == 1
    assert damaged.name in json.loads(found.out)["faults"][0]


def test_a_rollback_exchanges_the_served_file(days: Path, tmp_path: Path):
    shutil.copytree(days / "cells", tmp_path / "cells")
    registry = ModelRegistry(tmp_path / "cells")
    fit = [MBCTCalibrator("pctr", preset="paper", max_trees=n) for n in (1, 2)]
    first, second = (dumps(one.fit(parquet.read_table(days / "1.parquet"), "click")) for one in fit)
    registry.publish(first)
    registry.publish(second)
    (tmp_path / "model.json").write_bytes(second)
    assert mbct("rollback", "cells", "-o", "model.json", cwd=tmp_path).code == 0
    assert (tmp_path / "model.json").read_bytes() == first


def test_a_bad_first_model_is_not_promoted_and_the_exit_code_says_so(tmp_path: Path):
    rng = np.random.default_rng(0)
    for number, shift in ((1, 2.0), (2, -2.0)):
        p = rng.beta(1.0, 4.0, 4000).round(3)
        table = pa.table({"p": p, "y": (rng.random(4000) < sigmoid(logit(p) + shift)).astype(int)})
        parquet.write_table(table, tmp_path / f"{number}.parquet")
        roles = ["--label", "y", "--score", "p", "--store", "cells", "--day", f"2024-05-0{number}"]
        assert mbct("cells", "aggregate", f"{number}.parquet", *roles, cwd=tmp_path).code == 0
    done = mbct("refresh", "--store", "cells", "-o", "model.json", "--holdout-days", "1", cwd=tmp_path)
    assert done.code == 1
    assert "log loss rises by" in done.out
    assert "predictions pass unchanged" in done.out
    assert not (tmp_path / "model.json").exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["cells", "window", "--store", "empty"], "empty"),
        (["cells", "aggregate", "1.parquet", "--store", "cells", "--day", "yesterday"], "yesterday"),
        (["refresh", "--store", "empty"], "holds no cells"),
        (["refresh", "--store", "cells", "--holdout", "2030-01-01"], "has no cells"),
        (["cells", "fly"], "No such command 'fly'"),
        (["rollback", "empty"], "nothing to roll back to"),
    ],
)
def test_bad_input(days: Path, arguments: list[str], text: str):
    done = mbct(*arguments, cwd=days)
    assert done.code == 2
    assert text in done.err
    assert "unexpected" not in done.err


def test_maturity_is_shown_as_a_curve(tmp_path):
    store = CellStore(tmp_path / "late")
    p = np.tile([0.2, 0.4], 50)
    for seen, positives in ((1, 10), (2, 20), (4, 25)):
        frame = {"p": p, "y": (np.arange(100) < positives).astype(int)}
        bins = fit_bins({"p": p, "y": np.arange(100) % 2}, score_column="p", label="y")
        cells = aggregate(frame, bins, label="y")
        store.append(cells, bins, day="2024-05-01", batch="a", replace=True, seen=f"2024-05-0{seen}")
    found = json.loads(mbct("cells", "maturity", "--store", "late", "--json", cwd=tmp_path).out)
    assert found["arrived"] == pytest.approx([0.4, 0.8, 0.8, 1.0])
    shown = mbct("cells", "maturity", "--store", "late", cwd=tmp_path).out
    assert "80.0%" in shown
    assert "\N{FULL BLOCK}" * 40 in shown
