"""``mbct monitor`` takes days in order, once, and tells by its exit code whether an alarm is on."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from terminal import mbct


def run(*arguments):
    return mbct(*map(str, arguments), cwd=Path())


@pytest.fixture
def log(tmp_path):
    rng = np.random.default_rng(0)
    n, days = 40_000, 20
    day = rng.integers(0, days, n)
    site = rng.choice(["north", "south"], n)
    p = rng.choice([0.05, 0.2], n)
    rate = p * np.where((site == "south") & (day >= 10), 1.4, 1.0)
    frame = pl.DataFrame(
        {
            "at": np.datetime64("2024-05-01") + day.astype("timedelta64[D]"),
            "site": site,
            "score": p,
            "label": (rng.random(n) < rate).astype(int),
        }
    )
    path = tmp_path / "log.parquet"
    frame.write_parquet(path)
    return path


def test_an_alarm_is_on_and_names_segment_and_date(log):
    done = run("monitor", log, "--by", "site", "--json")
    assert done.code == 1
    alarms = {alarm["name"]: alarm for alarm in json.loads(done.out)["alarms"]}
    south = alarms["south"]
    assert south["direction"] == "underestimated"
    assert south["ratio"] == pytest.approx(1.4, abs=0.1)
    assert np.datetime64(int(south["changed_at"]), "s").astype("datetime64[D]") >= np.datetime64("2024-05-09")
    assert "north" not in alarms
    assert "alarm: segment south underestimated" in run("monitor", log, "--by", "site").out


def test_the_state_goes_on_from_day_to_day_and_a_day_counts_once(log, tmp_path):
    state = tmp_path / "monitor.json"
    days = sorted(pl.read_parquet(log)["at"].unique().to_list())
    for day in days:
        part = tmp_path / f"{day}.csv"
        pl.read_parquet(log).filter(pl.col("at") == day).drop("at").write_csv(part)
        done = run("monitor", part, "--by", "site", "--day", day, "--state", state)
    assert done.code == 1
    kept = json.loads(state.read_text())
    whole = tmp_path / "whole.json"
    run("monitor", log, "--by", "site", "--state", whole)
    assert kept["evidence"] == json.loads(whole.read_text())["evidence"]
    again = run("monitor", part, "--by", "site", "--day", days[-1], "--state", state)
    assert "was taken before" in again.err
    assert json.loads(state.read_text()) == kept


def test_wrong_use_is_named(log, tmp_path):
    assert "--day" in run("monitor", log, "--time", "none").err
    assert "without the weight" in run("monitor", log, "--weight", "at", "--time", "none", "--day", "2024-05-01").err
    state = tmp_path / "other.json"
    state.write_text("{}")
    assert "holds no state" in run("monitor", log, "--state", state).err
