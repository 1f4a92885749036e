"""Live PCOC and ECE equal their definitions over each window, and alarms need evidence."""

import math

import numpy as np
import pytest

from mbct.serving.live import _EDGES, LiveCalibration
from mbct.serving.options import FeedbackOptions

NOON = 1_700_000_100.0


def filled(rng, n, rate, *, at=NOON, live=None, segment=None, options=None):
    live = live or LiveCalibration(options or FeedbackOptions())
    q = rng.beta(2, 10, n)
    y = (rng.random(n) < np.minimum(q * rate, 1)).astype(int)
    for one_q, one_y in zip(q.tolist(), y.tolist(), strict=True):
        live.add(at, segment, one_q, one_y)
    return live, q, y


def by_place(live, now=NOON):
    return {(m.window, m.segment): m for m in live.report(now)}


def test_metrics_equal_their_definitions():
    live, q, y = filled(np.random.default_rng(0), 3000, 1.0)
    metric = by_place(live)["1h", "all"]
    bins = np.searchsorted(_EDGES, q)
    gaps = [abs((q - y)[bins == b].sum()) for b in range(len(_EDGES) + 1)]
    assert metric.pcoc == pytest.approx(q.sum() / y.sum())
    assert metric.ece == pytest.approx(sum(gaps) / len(q))
    assert metric.outcomes == 3000
    assert not metric.alarm


def test_old_outcomes_leave_the_windows():
    rng = np.random.default_rng(1)
    live, *_ = filled(rng, 100, 1.0)
    filled(rng, 50, 1.0, at=NOON + 7200, live=live)
    later = by_place(live, NOON + 7200)
    assert later["1h", "all"].outcomes == 50
    assert later["24h", "all"].outcomes == 150
    assert by_place(live, NOON + 86_400)["24h", "all"].outcomes == 50
    assert by_place(live, NOON + 3 * 86_400) == {}
    live.add(NOON, None, 0.5, 1)
    assert by_place(live, NOON + 3 * 86_400) == {}


def test_alarms_need_a_deviation_and_evidence():
    assert not by_place(filled(np.random.default_rng(2), 30, 1.5)[0])["1h", "all"].alarm
    assert by_place(filled(np.random.default_rng(2), 5000, 1.5)[0])["1h", "all"].alarm
    assert by_place(filled(np.random.default_rng(2), 5000, 0.5)[0])["1h", "all"].alarm
    false_alarms = sum(
        by_place(filled(np.random.default_rng(seed), 400, 1.0, options=FeedbackOptions(pcoc_threshold=0.01))[0])[
            "1h", "all"
        ].alarm
        for seed in range(200)
    )
    assert false_alarms <= 1


def test_errors_that_cancel_between_bins_raise_the_ece_alarm():
    live = LiveCalibration(FeedbackOptions())
    for i in range(4000):
        live.add(NOON, None, 0.12, int(i % 100 < 4))
        live.add(NOON, None, 0.35, int(i % 100 < 43))
    metric = by_place(live)["1h", "all"]
    assert metric.pcoc == pytest.approx(1.0)
    assert metric.alarm


def test_no_positive_makes_pcoc_infinite():
    live = LiveCalibration(FeedbackOptions())
    live.add(NOON, None, 0.1, 0)
    assert by_place(live)["1h", "all"].pcoc == math.inf


def test_segments_beyond_the_limit_share_one():
    live = LiveCalibration(FeedbackOptions(segment="carrier", segments=2))
    for i in range(10):
        live.add(NOON, f"carrier {i % 5}", 0.5, i % 2)
    counts = {m.segment: m.outcomes for m in live.report(NOON) if m.window == "1h"}
    assert counts == {"all": 10, "carrier 0": 2, "carrier 1": 2, "other": 6}
