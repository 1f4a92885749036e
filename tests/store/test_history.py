"""Runs and the monitor's state are kept once, in order."""

from mbct.store import CellStore
from mbct.store.history import History


def test_runs_and_states(tmp_path):
    history = History(CellStore(tmp_path))
    assert history.events() == []
    assert history.monitor_state() == {}
    assert [history.add({"day": day, "alarms": []}) for day in ("2024-05-01", "2024-05-02")] == [1, 2]
    history.keep_monitor_state({"last_day": 5, "evidence": [0.5]})
    history.keep_monitor_state({"last_day": 5, "evidence": [9.0]})
    history.keep_monitor_state({"last_day": 4, "evidence": [9.0]})
    assert history.monitor_state() == {"last_day": 5, "evidence": [0.5]}
    again = History(CellStore(tmp_path))
    assert [run["day"] for run in again.runs()] == ["2024-05-01", "2024-05-02"]
    assert [event["kind"] for event in again.events()] == ["loop", "loop"]
