"""Alarms of the service: raised minute by minute, logged once, and exact after a restart at any line."""

import json
import logging

import numpy as np
import pytest

from builders import random_model
from mbct.serving.batch import ScoredBatch
from mbct.serving.feedback import FeedbackLoop
from mbct.serving.options import FeedbackOptions
from mbct.serving.outcome_stream import OutcomeStream

NOON = 1_700_000_100.0


class Clock:
    """A clock that the test moves."""

    def __init__(self):
        self.now = NOON

    def __call__(self):
        return self.now


def traffic(loop, clock, n_minutes, factor, seed=0, first=0):
    """Rows scored and answered within a minute, with ``factor`` times the predicted positives."""
    rng, model = np.random.default_rng(seed), random_model(1)
    for minute in range(n_minutes):
        ids = [f"{first}-{minute}-{i}" for i in range(500)]
        q = rng.choice([0.1, 0.2], 500)
        codes = np.zeros((500, len(model.bins)), model.bins.code_type)
        loop.remember(model.bins, ids, ScoredBatch(q, q, codes, {}))
        label = (rng.random(500) < q * factor).astype(int).tolist()
        half = 250
        loop.join(list(zip(ids[:half], label[:half], strict=True)))
        clock.now += 0.5
        loop.join(list(zip(ids[half:], label[half:], strict=True)))
        clock.now += 59.5


def test_a_bias_raises_an_alarm_that_is_logged_once(caplog):
    clock = Clock()
    loop = FeedbackLoop(FeedbackOptions(), clock=clock)
    traffic(loop, clock, 10, 1.0)
    loop.live()
    assert loop.stream.alarms == []
    changed = clock.now
    with caplog.at_level(logging.INFO, "mbct.serving"):
        traffic(loop, clock, 20, 1.5, first=1)
        loop.live()
        loop.live()
    overall = next(alarm for alarm in loop.stream.alarms if alarm.kind == "all")
    assert overall.direction == "underestimated"
    assert abs(overall.changed_at - changed) <= 300
    assert overall.ratio == pytest.approx(1.5, abs=0.15)
    assert sum("calibration alarm: all outcomes" in text for text in caplog.messages) == 1
    assert loop.stream.raised >= len(loop.stream.alarms)


@pytest.mark.parametrize("checkpoint_after", [0, 3])
def test_a_restart_goes_on_exactly_from_a_checkpoint_and_the_lines_after_it(tmp_path, checkpoint_after):
    clock = Clock()
    options = FeedbackOptions(folder=tmp_path, segment="x")
    loop = FeedbackLoop(options, clock=clock)
    traffic(loop, clock, checkpoint_after, 1.2)
    if checkpoint_after:
        loop.checkpoint()()
    traffic(loop, clock, 4, 1.2, seed=1, first=1)
    state = loop.stream.state()
    loop.close()  # nothing is saved here: a killed process would leave the same files
    again = FeedbackLoop(options, clock=clock)
    assert again.stream.state() == state
    again.close()


def test_a_damaged_checkpoint_begins_anew_and_says_so(tmp_path, caplog):
    (tmp_path / "checkpoint").write_text(json.dumps({"position": [1, 0], "state": {"slot": 1}}))
    loop = FeedbackLoop(FeedbackOptions(folder=tmp_path), clock=Clock())
    assert "alarms begin anew" in caplog.text
    assert loop.stream.state() == OutcomeStream(FeedbackOptions()).state()
    loop.close()


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"position": "none"}'])
def test_all_outcomes_are_taken_again_where_the_checkpoint_cannot_be_read(tmp_path, caplog, content):
    clock = Clock()
    loop = FeedbackLoop(FeedbackOptions(folder=tmp_path), clock=clock)
    traffic(loop, clock, 3, 1.2)
    loop.checkpoint()()
    state = loop.stream.state()
    loop.close()
    (tmp_path / "checkpoint").write_bytes(content)
    again = FeedbackLoop(FeedbackOptions(folder=tmp_path), clock=clock)
    assert "is damaged" in caplog.text
    assert again.stream.state() == state
    again.close()


def test_a_clock_set_back_loses_nothing():
    clock = Clock()
    loop = FeedbackLoop(FeedbackOptions(), clock=clock)
    traffic(loop, clock, 3, 1.0)
    clock.now = NOON - 7200
    traffic(loop, clock, 3, 1.0, first=1)
    clock.now = NOON + 7200
    loop.live()
    assert loop.stream.monitor.to_dict()["evidence"]["information"][0] == pytest.approx(3000 * 0.125, rel=0.05)


def served(loop, clock, n_minutes, factor, version, seed):
    """Traffic through the online layer; the mean of answers over outcomes of the last minute."""
    rng, model = np.random.default_rng(seed), random_model(1)
    for minute in range(n_minutes):
        ids = [f"{version}-{seed}-{minute}-{i}" for i in range(1000)]
        q = rng.choice([0.1, 0.2], 1000)
        codes = np.zeros((1000, len(model.bins)), model.bins.code_type)
        scored = loop.adjusted(version, model.bins, ScoredBatch(q, q, codes, {}))
        loop.remember(model.bins, ids, scored, version)
        label = (rng.random(1000) < q * factor).astype(int).tolist()
        loop.join(list(zip(ids, label, strict=True)))
        clock.now += 60.0
    return float(scored.calibrated.sum() / (q * factor).sum())


def test_the_online_layer_mends_answers_belongs_to_one_version_and_survives_a_restart(tmp_path):
    clock = Clock()
    options = FeedbackOptions(folder=tmp_path, online=True)
    loop = FeedbackLoop(options, clock=clock)
    assert served(loop, clock, 1, 1.5, "a", 0) == pytest.approx(1 / 1.5, abs=0.02)
    assert served(loop, clock, 20, 1.5, "a", 1) == pytest.approx(1.0, abs=0.05)
    loop.checkpoint()()
    assert served(loop, clock, 2, 1.5, "a", 2) == pytest.approx(1.0, abs=0.05)
    state = loop.stream.state()
    loop.close()
    again = FeedbackLoop(options, clock=clock)
    assert again.stream.state() == state
    # A new version is answered as it is, and its own layer begins with its first outcome.
    assert served(again, clock, 1, 1.0, "b", 3) == pytest.approx(1.0, abs=1e-9)
    served(again, clock, 1, 1.0, "b", 4)
    assert again.stream.layer_model == "b"
    assert abs(again.stream.layer.shift.intercept) < 0.1
    again.stream.layer.enabled = False
    assert served(again, clock, 1, 1.3, "b", 5) == pytest.approx(1 / 1.3)
    again.close()
