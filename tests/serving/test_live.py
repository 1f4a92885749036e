"""Live PCOC and ECE equal their definitions over each window."""

import math

import numpy as np
import pytest

from mbct.evaluation.monitor import BANDS
from mbct.serving.options import FeedbackOptions
from mbct.serving.outcome_stream import LiveCalibration

NOON = 1_700_000_100.0


def filled(rng, n, rate, *, at=NOON, live=None):
    live = live or LiveCalibration(FeedbackOptions())
    q = rng.beta(2, 10, n)
    y = (rng.random(n) < np.minimum(q * rate, 1)).astype(int)
    live.add(at, q, y.astype(float), [None] * n)
    return live, q, y


def by_place(live, now=NOON):
    return {(m.window, m.segment): m for m in live.report(now)}


def test_metrics_equal_their_definitions():
    live, q, y = filled(np.random.default_rng(0), 3000, 1.0)
    metric = by_place(live)["1h", "all"]
    bins = np.searchsorted(BANDS, q)
    gaps = [abs((q - y)[bins == b].sum()) for b in range(len(BANDS) + 1)]
    assert metric.pcoc == pytest.approx(q.sum() / y.sum())
    assert metric.ece == pytest.approx(sum(gaps) / len(q))
    assert metric.outcomes == 3000


def test_old_outcomes_leave_the_windows():
    rng = np.random.default_rng(1)
    live, *_ = filled(rng, 100, 1.0)
    filled(rng, 50, 1.0, at=NOON + 7200, live=live)
    later = by_place(live, NOON + 7200)
    assert later["1h", "all"].outcomes == 50
    assert later["24h", "all"].outcomes == 150
    assert by_place(live, NOON + 86_400)["24h", "all"].outcomes == 50
    assert by_place(live, NOON + 3 * 86_400) == {}
    live.add(NOON, np.array([0.5]), np.ones(1), [None])
    assert by_place(live, NOON + 3 * 86_400) == {}


def test_no_positive_makes_pcoc_infinite():
    live = LiveCalibration(FeedbackOptions())
    live.add(NOON, np.array([0.1]), np.zeros(1), [None])
    assert by_place(live)["1h", "all"].pcoc == math.inf


def test_segments_beyond_the_limit_share_one():
    live = LiveCalibration(FeedbackOptions(segment="carrier", segments=2))
    live.add(NOON, np.full(10, 0.5), np.arange(10) % 2.0, [f"carrier {i % 5}" for i in range(10)])
    counts = {m.segment: m.outcomes for m in live.report(NOON) if m.window == "1h"}
    assert counts == {"all": 10, "carrier 0": 2, "carrier 1": 2, "other": 6}
