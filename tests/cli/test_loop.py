"""``mbct loop`` day by day: append, watch, refit, publish, report; a day run twice counts once."""

import datetime
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from mbct.cli.monitor import rows_by_day
from mbct.serving.loaded_model import LoadedModel
from mbct.store import CellStore, ModelRegistry
from processes import redis_server  # noqa: F401 - a fixture is found by name
from terminal import mbct

FIRST = datetime.date(2024, 5, 1)


def write_day(folder, number, factor=1.4, n=4000):
    """A day's log, in which one site is clicked more often than predicted."""
    rng = np.random.default_rng(number)
    site = rng.choice(["north", "south"], n)
    p = rng.choice([0.1, 0.2, 0.3], n)
    rate = p * np.where(site == "south", factor, 1.0)
    day = FIRST + datetime.timedelta(days=number)
    frame = pl.DataFrame({"score": p, "site": site, "label": (rng.random(n) < rate).astype(int)})
    frame.write_parquet(folder / f"{day}.parquet")
    return day.isoformat()


CONFIG = """
store = "cells"
log = "{day}.parquet"
replace_days = 2

[monitor]
by = "site"

[refresh]
holdout_days = 2
[refresh.model]
preset = "fast"

[publish]
file = "model.json"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "loop.toml").write_text(CONFIG)
    return tmp_path


def run(folder, *arguments):
    return mbct(*map(str, arguments), cwd=folder)


def test_days_become_models_and_history(folder):
    (folder / "loop.toml").write_text(f'reports = "reports"\n{CONFIG}')
    days = [write_day(folder, number) for number in range(5)]
    outcomes = [run(folder, "loop", "loop.toml", "--day", day, "--json") for day in days]
    runs = [json.loads(outcome.out) for outcome in outcomes]
    assert runs[0]["decision"] == "waiting"
    promoted = next(r for r in runs if r["decision"] == "promoted")
    assert promoted["published"] == ["model.json"]
    assert (folder / "reports" / f"{promoted['day']}.html").exists()
    # Before there is a model the scores are watched: they are off.
    alarmed = next(r for r in runs if r["alarms"])
    assert {(a["name"], a["direction"]) for a in alarmed["alarms"]} >= {("south", "underestimated")}
    assert outcomes[runs.index(alarmed)].code == 1
    store = CellStore(folder / "cells")
    assert store.days() == days
    assert ModelRegistry(store).ensemble().bins.names == ("score", "site")
    assert sum(batch.count for batch in store.manifest().batches) == 5 * 4000
    again = run(folder, "loop", "loop.toml", "--day", days[-1], "--json")
    assert "was taken before" in again.err
    assert sum(batch.count for batch in store.manifest().batches) == 5 * 4000
    shown = run(folder, "history", "--store", "cells")
    assert f"loop of {days[-1]}" in shown.out
    assert "promoted" in shown.out
    assert "segment south underestimated" in shown.out
    events = json.loads(run(folder, "history", "--store", "cells", "--last", "3", "--json").out)["events"]
    assert len(events) == 3


def test_a_day_that_is_watched_late_is_watched_under_the_model_that_served_it(folder, monkeypatch):
    (folder / "loop.toml").write_text(CONFIG.replace('by = "site"', "wait_days = 2"))
    watched = {}

    def recorded(data, roles, calibrator, by, day):
        watched[day] = calibrator
        return rows_by_day(data, roles, calibrator, by, day)

    monkeypatch.setattr("mbct.cli.loop.rows_by_day", recorded)
    days = [write_day(folder, number) for number in range(7)]
    runs = [json.loads(run(folder, "loop", "loop.toml", "--day", day, "--json").out) for day in days]
    first = next(number for number, r in enumerate(runs) if r["decision"] == "promoted")
    assert first < 4
    assert list(watched) == days[:5]
    # The model of a day's run serves from the next day on.
    assert [watched[day] is not None for day in days[:5]] == [number > first for number in range(5)]


def test_a_rollback_exchanges_the_model_in_service_and_its_file(folder):
    for number in range(4):
        run(folder, "loop", "loop.toml", "--day", write_day(folder, number))
    for number in range(4, 9):
        run(folder, "loop", "loop.toml", "--day", write_day(folder, number, 0.6))
    registry = ModelRegistry(folder / "cells")
    versions = {record["in_service"] for record in registry.records()} - {None}
    assert len(versions) > 1
    before = registry.in_service()
    assert run(folder, "rollback", "cells", "-o", "model.json").code == 0
    served = LoadedModel(Path(folder / "model.json").read_bytes())
    assert served.version == registry.in_service() != before
    assert "rolled back" in run(folder, "history", "--store", "cells").out


def test_a_failed_run_is_kept_with_its_reason(folder):
    done = run(folder, "loop", "loop.toml", "--day", "2024-05-01")
    assert done.code == 2
    assert "2024-05-01.parquet" in done.err
    assert "2024-05-01.parquet" in run(folder, "history", "--store", "cells").out


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("stor = 'x'", "did you mean 'store'"),
        ("store = 'x'", "'log'"),
        ("store = 'x'\nlog = 'a.csv'", "{day}"),
        ("store = 'x'\nlog = '{day}'\n[refresh]\nmaturit = 3", "did you mean 'maturity'"),
        ("store = ", "cannot read"),
    ],
)
def test_a_wrong_config_is_named(folder, config, message):
    (folder / "bad.toml").write_text(config)
    done = run(folder, "loop", "bad.toml")
    assert done.code == 2
    assert message in done.err


def test_the_model_in_service_goes_to_redis_when_it_changes(folder, redis_server):  # noqa: F811 - the fixture
    url = redis_server.url
    config = CONFIG.replace('file = "model.json"', f'redis = "{url}"\nname = "clicks"')
    (folder / "loop.toml").write_text(config)
    runs = []
    for number in range(4):
        done = run(folder, "loop", "loop.toml", "--day", write_day(folder, number), "--json")
        runs.append(json.loads(done.out))
    with ModelRegistry(url, "clicks") as published:
        assert published.in_service() == ModelRegistry(folder / "cells").in_service() is not None
        assert len(published.versions()) == len({r["in_service"] for r in runs} - {None})
