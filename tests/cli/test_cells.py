"""cells, refresh and the way back, on two simulated days."""

import json
from pathlib import Path

import pytest
from pyarrow import parquet

from mbct import MBCTCalibrator, load_model
from mbct.calibrators.persistence import dumps
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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["cells", "window", "--store", "empty"], "empty"),
        (["cells", "aggregate", "1.parquet", "--store", "cells", "--day", "yesterday"], "yesterday"),
        (["refresh", "--store", "empty"], "holds no cells"),
        (["refresh", "--store", "cells", "--holdout", "2030-01-01"], "has no cells"),
        (["cells", "fly"], "No such command 'fly'"),
        (["rollback", "empty"], "nothing to roll back to"),
    ],
)
def test_bad_input(days: Path, arguments: list[str], said: str):
    done = mbct(*arguments, cwd=days)
    assert done.code == 2
    assert said in done.err
    assert "unexpected" not in done.err
