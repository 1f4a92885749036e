"""Days with late labels: left out, waited for, or completed; a simulation whose delay is known."""

import datetime

import numpy as np
import pytest

from mbct.data import aggregate, fit_bins
from mbct.errors import DataError, ParameterError
from mbct.stats.probabilities import logit
from mbct.store import CellStore
from mbct.store.maturity import _completed, complete_shares, matured, store_maturity
from mbct.store.refresh import refresh
from mbct.training.cells import Sums

FIRST = datetime.date(2024, 5, 1)
DAYS, ROWS, MEAN_DELAY = 28, 40_000, 3.0


def day_of(number):
    return FIRST + datetime.timedelta(days=number)


@pytest.fixture(scope="module")
def late(tmp_path_factory):
    """A store of calibrated days whose labels come with an exponential delay; each day is replaced for two weeks."""
    rng = np.random.default_rng(0)
    store = CellStore(tmp_path_factory.mktemp("late") / "cells")
    bins = None
    for number in range(DAYS):
        p = rng.choice([0.05, 0.15], ROWS)
        site = rng.choice(["a", "b"], ROWS)
        positive = rng.random(ROWS) < p
        delay = np.where(positive, rng.exponential(MEAN_DELAY, ROWS), np.inf)
        for seen in range(number, min(number + 15, DAYS)):
            frame = {"p": p, "site": site, "y": (delay < seen - number + 1).astype(int)}
            bins = bins or fit_bins(frame, score_column="p", label="y")
            cells = aggregate(frame, bins, label="y")
            store.append(cells, bins, day=day_of(number), batch=f"{number}", replace=True, seen=day_of(seen))
    return store


def pcoc(window):
    total = window.cells.total
    return float(total.pred / total.label)


def test_the_curve_is_that_of_the_delay(late):
    age = np.arange(15)
    expected = (1 - np.exp(-(age + 1) / MEAN_DELAY)) / (1 - np.exp(-15 / MEAN_DELAY))
    assert store_maturity(late).share(age) == pytest.approx(expected, abs=0.02)


def test_the_newest_week_is_completed_within_two_percent(late):
    shares = complete_shares(late, "auto")
    usable = [day for day in late.days() if shares[day] > 0.0]
    assert usable[-1] < late.days()[-1]  # the newest day has too few of its labels
    until = usable[-1]
    week = late.window(7, until=until, by_day=True)
    waited = late.window(7, until=day_of(DAYS - 15), by_day=True)
    assert pcoc(late.window(7)) > 1.25
    assert pcoc(week) > 1.15
    assert pcoc(waited) == pytest.approx(1.0, abs=0.02)
    assert pcoc(matured(week, shares)) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("bias", [0.5, 2.0])
def test_positives_are_completed_where_predictions_are_off(bias):
    """Expected sums of days of several ages: exact for one offset of the log-odds."""
    p, share = np.tile([0.2, 0.6], 3), np.repeat([0.5, 0.8, 0.95], 2)
    rate = bias * p / (1.0 - p + bias * p)
    n = np.full(6, 1000.0)
    label = n * rate * share
    sums = Sums(n, label, n * p, n * p**2, label * p, n * logit(p))
    found = _completed(sums, share)
    assert found.count == pytest.approx(n)
    assert found.label == pytest.approx(n * rate)
    assert found.pred == pytest.approx(n * p)


def test_a_day_whose_labels_were_not_taken_again_is_left_out(tmp_path):
    rng = np.random.default_rng(0)
    store, bins = CellStore(tmp_path), None
    for number in range(12):
        p = rng.choice([0.1, 0.3], 2000)
        delay = np.where(rng.random(2000) < p, rng.exponential(2.0, 2000), np.inf)
        for seen in range(number, number + (1 if number == 4 else 8)):
            frame = {"p": p, "y": (delay < seen - number + 1).astype(int)}
            bins = bins or fit_bins(frame, score_column="p", label="y")
            cells = aggregate(frame, bins, label="y")
            store.append(cells, bins, day=day_of(number), batch=f"{number}", replace=True, seen=day_of(seen))
    for maturity in ("auto", 7):
        refresh(store, maturity=maturity)
        training = late_record(store)["training"]
        assert training["rows"] == pytest.approx(8 * 2000)
        assert "4" not in training["batches"]


def test_a_day_without_new_labels_ages_too(tmp_path):
    frame = {"p": np.array([0.1, 0.2] * 10), "y": np.array([0, 1] * 10)}
    bins = fit_bins(frame, score_column="p", label="y")
    store, cells = CellStore(tmp_path), aggregate(frame, bins, label="y")
    for seen in ("2024-05-01", "2024-05-09", "2024-05-09"):
        store.append(cells, bins, day="2024-05-01", batch="a", replace=True, seen=seen)
    assert [one.seen for one in store.manifest().snapshots] == ["2024-05-01", "2024-05-09"]
    assert complete_shares(store, 8) == {"2024-05-01": 1.0}
    assert sum(batch.count for batch in store.manifest().batches) == 20


def test_completed_sums_are_possible_ones(late):
    window = late.window(7, until=day_of(DAYS - 3), by_day=True)
    sums = matured(window, complete_shares(late, "auto")).cells.sums
    assert (sums.label <= sums.count * (1 + 1e-12)).all()
    assert float(sums.count.sum()) == pytest.approx(float(window.cells.sums.count.sum()), rel=0.01)
    assert sums.pred / sums.count == pytest.approx(window.cells.sums.pred / window.cells.sums.count)


def test_refresh_waits_or_completes(late):
    with pytest.raises(ParameterError, match="maturity"):
        refresh(late, maturity="later")
    waited = refresh(late, maturity=14)
    record = late_record(late)
    assert record["holdout"]["last_day"] == day_of(DAYS - 15).isoformat()
    assert waited.metrics["uncalibrated"].prediction_ratio == pytest.approx(1.0, abs=0.02)
    plain = refresh(late)
    completed = refresh(late, maturity="auto")
    assert plain.metrics["uncalibrated"].prediction_ratio > 1.3
    assert completed.metrics["uncalibrated"].prediction_ratio == pytest.approx(1.0, abs=0.02)
    shares = late_record(late)["maturity"]["shares"]
    assert shares[day_of(DAYS - 1).isoformat()] == 0.0
    assert late_record(late)["holdout"]["last_day"] > record["holdout"]["last_day"]


def late_record(store):
    from mbct.store import ModelRegistry

    return ModelRegistry(store).records()[-1]


def test_a_store_that_was_never_seen_again_says_so(tmp_path):
    frame = {"p": np.array([0.1, 0.2] * 10), "y": np.array([0, 1] * 10)}
    bins = fit_bins(frame, score_column="p", label="y")
    store = CellStore(tmp_path)
    store.append(aggregate(frame, bins, label="y"), bins, day="2024-05-01", batch="a", seen="2024-05-01")
    with pytest.raises(DataError, match="replace"):
        store_maturity(store)
    with pytest.raises(DataError, match="old enough"):
        refresh(store, maturity=10)
