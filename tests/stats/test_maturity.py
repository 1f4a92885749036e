"""The share of labels that have come, against the delay that made them."""

import numpy as np
import pytest

from mbct.errors import DataError
from mbct.stats.maturity import Snapshot, maturity_of_delays, maturity_of_snapshots


def known(age, mean=3.0, last=19):
    """Share of exponential delays below the end of an age, among those within the longest that was watched."""
    return (1 - np.exp(-(np.asarray(age) + 1) / mean)) / (1 - np.exp(-(last + 1) / mean))


def test_delays_of_single_rows_with_censoring():
    rng = np.random.default_rng(0)
    n = 200_000
    watched = rng.uniform(0.0, 20.0, n)
    delay = np.where(rng.random(n) < 0.1, rng.exponential(3.0, n), np.inf)
    found = maturity_of_delays(delay, watched)
    assert found.share(np.arange(15)) == pytest.approx(known(np.arange(15)), abs=0.025)
    assert np.all(np.diff(found.arrived) >= 0)


def test_labels_of_a_day_that_is_not_over_do_not_count():
    rng = np.random.default_rng(1)
    watched = rng.uniform(0.0, 20.0, 200_000)
    delay = np.where(rng.random(200_000) < 0.3, rng.exponential(10.0, 200_000), np.inf)
    found = maturity_of_delays(np.where(delay <= watched, delay, np.inf), watched)
    assert len(found.arrived) == 19
    assert found.share(np.arange(19)) == pytest.approx(known(np.arange(19), 10.0, 18), abs=0.025)


def test_uncensored_delays_give_the_empirical_distribution():
    delay = np.array([0.5, 0.6, 1.2, 5.5, np.inf, np.inf])
    found = maturity_of_delays(delay, np.full(6, 10.0))
    assert found.share([0, 1, 4, 5, 9]) == pytest.approx([0.5, 0.75, 0.75, 1.0, 1.0])


def test_snapshots_of_cohorts():
    rng = np.random.default_rng(1)
    snapshots = []
    for day in range(30):
        delay = np.where(rng.random(20_000) < 0.1, rng.exponential(3.0, 20_000), np.inf)
        arrived = {seen: float((delay < seen - day + 1).sum()) for seen in range(day, min(day + 20, 30))}
        snapshots += [Snapshot(day, seen, 20_000, positives) for seen, positives in arrived.items()]
    found = maturity_of_snapshots(snapshots)
    assert found.share(np.arange(20)) == pytest.approx(known(np.arange(20)), abs=0.02)


def test_a_cohort_that_grew_is_begun_anew():
    grown = [Snapshot(0, 0, 50, 1), Snapshot(0, 1, 100, 4), Snapshot(0, 2, 100, 8), Snapshot(1, 1, 100, 4)]
    found = maturity_of_snapshots(grown)
    assert 0.0 < found.share(0) < found.share(1) + 1e-12 <= found.share(2) == 1.0


def test_days_of_a_backfill_count_from_the_age_at_which_they_were_seen():
    rng = np.random.default_rng(2)
    snapshots = []
    for day in range(-30, 25):
        delay = np.where(rng.random(20_000) < 0.1, rng.exponential(3.0, 20_000), np.inf)
        arrived = {
            seen: float((delay < seen - day + 1).sum()) for seen in range(max(day, 0), min(max(day, 0) + 20, 25))
        }
        snapshots += [Snapshot(day, seen, 20_000, positives) for seen, positives in arrived.items()]
    found = maturity_of_snapshots(snapshots)
    assert found.share(np.arange(20)) == pytest.approx(known(np.arange(20), last=50), abs=0.02)


def test_without_late_positives_nothing_is_known():
    with pytest.raises(DataError, match="no positive"):
        maturity_of_delays([np.inf], [3.0])
