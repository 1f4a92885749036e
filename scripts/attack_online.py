"""Kills of what learns from outcomes: the online layer and alarms beside the journal, and the history of a store.

After each kill a restart must stand where one reading of everything that was acknowledged stands: to the last digit.
"""

import json
import random
from pathlib import Path

import numpy as np

from attack_kills import Found, Say, killed
from builders import random_model
from mbct.evaluation.monitor import CalibrationMonitor
from mbct.serving.batch import ScoredBatch
from mbct.serving.feedback import FeedbackLoop
from mbct.serving.journal import Joined, read_lines
from mbct.serving.options import FeedbackOptions
from mbct.serving.outcome_stream import OutcomeStream
from mbct.store import CellStore
from mbct.store.history import History

_DAY = 86_400.0


def attack_online(folder: Path, n: int, draw: random.Random) -> Found:
    """Kill a service that learns: its state after a restart must be that of all lines of the journal, each once."""
    model = random_model(1)
    codes = np.zeros((20, len(model.bins)), model.bins.code_type)
    options = FeedbackOptions(folder=folder / "journal", online=True, segment=model.bins.names[1])
    faults = acknowledged = 0
    for kill in range(n):

        def work(say: Say, kill: int = kill) -> None:
            now = [1e9 + 1e6 * kill]
            loop = FeedbackLoop(options, clock=lambda: now[0])
            rng = np.random.default_rng(kill)
            for turn in range(10**6):
                q, version = rng.uniform(0.05, 0.4, 20), str((kill + turn) // 100)
                ids = [f"{kill}-{turn}-{i}" for i in range(20)]
                scored = loop.adjusted(version, model.bins, ScoredBatch(q, q, codes, {}))
                loop.remember(model.bins, ids, scored, version)
                loop.join([(name, int(y)) for name, y in zip(ids, rng.random(20) < 1.3 * q, strict=True)])
                say(["joined", 20])
                now[0] += 25.0
                if turn % 5 == 4 and (save := loop.checkpoint()) is not None:
                    save()
                    loop.seal()

        acknowledged += sum(number for _, number in killed(work, draw.uniform(0.02, 0.25)))
        restarted = FeedbackLoop(options, clock=lambda: 0.0)
        restarted.close()
        files = sorted((folder / "journal").glob("outcomes-*"), key=lambda path: int(path.name.split("-")[1]))
        lines = [line for path in files for line in read_lines(path, Joined)]
        whole = OutcomeStream(options)
        whole.take(lines)
        faults += json.dumps(restarted.stream.state()) != json.dumps(whole.state())
        faults += len(lines) < acknowledged
        acknowledged = len(lines)  # a batch may be written whose acknowledgement the kill has cut off
    return f"{n} kills of the online layer and alarms, {acknowledged:,} outcomes", faults


def attack_history(folder: Path, n: int, draw: random.Random) -> Found:
    """Kill a loop that watches days and writes history: every day is watched once, every acknowledged run is there."""
    faults, done = 0, -1

    def rows(day: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(day)
        q = rng.choice([0.1, 0.2], 300)
        return (rng.random(300) < 1.2 * q).astype(int), q

    for _ in range(n):

        def work(say: Say, first: int = done + 1) -> None:
            history = History(CellStore(folder / "cells"))
            for day in range(first, 10**6):
                monitor, state = CalibrationMonitor(), history.monitor_state()
                if state:
                    monitor.restore(state)
                if day > state.get("last_day", -1):
                    monitor.update(*rows(day), at=day * _DAY)
                    history.keep_monitor_state({"last_day": day, **monitor.to_dict()})
                history.add({"day": day, "alarms": []})
                say(day)

        done = max([done, *killed(work, draw.uniform(0.02, 0.25))])
        history = History(CellStore(folder / "cells"))
        faults += not set(range(done + 1)) <= {run["day"] for run in history.runs()}
        state = history.monitor_state()
        if state:
            whole = CalibrationMonitor()
            for day in range(state["last_day"] + 1):
                whole.update(*rows(day), at=day * _DAY)
            faults += json.loads(json.dumps({"last_day": state["last_day"], **whole.to_dict()})) != state
    return f"{n} kills of the history, {done + 1:,} days", faults
