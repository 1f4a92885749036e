"""Alarms name what changed, are rare where nothing did, end when it is mended, and go on exactly from a saved state."""

import json

import numpy as np
import pytest

from mbct.errors import DataError, ParameterError
from mbct.evaluation.monitor import CalibrationMonitor

DAY = 86_400.0


def day_of(rng, factor=None, n=4000):
    """A day's outcomes in four segments, one of them off by a factor."""
    segment = rng.choice(["a", "b", "c", "d"], n)
    q = rng.choice([0.03, 0.05, 0.15], n)
    p = q * np.where(segment == "c", factor or 1.0, 1.0)
    return (rng.random(n) < p).astype(int), q, segment


def watched(factors, seed=0, **settings):
    rng = np.random.default_rng(seed)
    monitor = CalibrationMonitor(**{"segments": 4, **settings})
    raised = [monitor.update(*day_of(rng, f), at=day * DAY) for day, f in enumerate(factors)]
    return monitor, raised


def test_an_alarm_names_segment_size_direction_and_date():
    monitor, raised = watched([1.0] * 20 + [1.5] * 10)
    (alarm,) = [a for a in monitor.alarms if a.kind == "segment"]
    assert (alarm.name, alarm.direction) == ("c", "underestimated")
    assert alarm.ratio == pytest.approx(1.5, abs=0.1)
    assert abs(alarm.changed_at / DAY - 20) <= 2
    assert next(day for day, alarms in enumerate(raised) if alarms) >= 20
    assert str(alarm).startswith("segment c underestimated: 1.")
    assert "since 1970-01-2" in str(alarm)


def test_overestimation_is_found_and_ends_when_it_is_mended():
    monitor, _ = watched([1.0] * 5 + [0.4] * 10 + [1.0] * 60)
    assert not [a for a in monitor.alarms if a.kind == "segment"]
    past = [a for a in monitor.past if a.name == "c"]
    assert len(past) == 1
    assert past[0].direction == "overestimated"
    assert past[0].raised_at < past[0].ended_at


def test_errors_that_cancel_between_probabilities_are_found():
    rng = np.random.default_rng(0)
    monitor = CalibrationMonitor()
    for day in range(10):
        q = np.repeat([0.12, 0.35], 2000)
        p = np.repeat([0.04, 0.43], 2000)
        monitor.update((rng.random(4000) < p).astype(int), q, at=day * DAY)
    assert {(a.name, a.direction) for a in monitor.alarms} == {
        ("0.1 to 0.15", "overestimated"),
        ("0.3 to 0.4", "underestimated"),
    }


def test_calibrated_streams_raise_at_most_their_level_over_all_segments():
    """Two of 60 do; forty would if each of the 30 segments had the level for itself."""
    alarms = 0
    for seed in range(60):
        rng, monitor = np.random.default_rng(seed), CalibrationMonitor(segments=30, level=0.2, tolerance=0.0)
        for day in range(40):
            q, segment = rng.choice([0.03, 0.05, 0.15], 500), rng.integers(0, 30, 500).astype(str)
            monitor.update((rng.random(500) < q).astype(int), q, segment, at=day * DAY)
        alarms += bool(monitor.alarms or monitor.past)
    assert alarms <= 0.2 * 60


@pytest.mark.parametrize("seed", range(3))
def test_deviations_within_the_tolerance_raise_none(seed):
    """A rate of 1.15 times is at most 1.18 times the odds."""
    assert any(watched([1.15] * 30, seed, tolerance=0.02)[1])
    assert not any(watched([1.15] * 30, seed, tolerance=0.2)[1])


def test_a_saved_state_goes_on_exactly():
    rng = np.random.default_rng(3)
    days = [day_of(rng, 1.3) for _ in range(12)]
    whole, first = CalibrationMonitor(segments=4), CalibrationMonitor(segments=4)
    for number, rows in enumerate(days):
        whole.update(*rows, at=number * DAY)
        if number < 6:
            first.update(*rows, at=number * DAY)
    second = CalibrationMonitor(segments=4)
    second.restore(json.loads(json.dumps(first.to_dict())))
    for number, rows in enumerate(days[6:], start=6):
        second.update(*rows, at=number * DAY)
    assert second.to_dict() == whole.to_dict()


def test_how_outcomes_are_divided_into_calls_changes_nothing():
    y, q, segment = day_of(np.random.default_rng(4))
    one, many = CalibrationMonitor(segments=2), CalibrationMonitor(segments=2)
    one.add(q, y.astype(float), segment)
    for part in np.split(np.arange(len(q)), 40):
        many.add(q[part], y[part].astype(float), segment[part])
    assert one.to_dict() == many.to_dict()


@pytest.mark.parametrize("bad", [{"level": 0.0}, {"level": 1.0}, {"tolerance": -0.1}, {"segments": -1}])
def test_parameters_are_checked(bad):
    with pytest.raises(ParameterError, match=next(iter(bad))):
        CalibrationMonitor(**bad)


def test_data_are_checked():
    with pytest.raises(DataError, match="y_true"):
        CalibrationMonitor().update([0, 1], [0.5], at=0.0)
    with pytest.raises(ParameterError, match="segments"):
        CalibrationMonitor(segments=3).restore(CalibrationMonitor().to_dict())
