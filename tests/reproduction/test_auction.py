"""Accounting identities of the simulated market, and that bucket C is what production would run."""

from datetime import date, timedelta
from functools import partial

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbct.serving import BatchScorer
from mbct.store import ModelRegistry
from reproduction.auction import market as markets
from reproduction.auction.auction import RESERVE, SHADING, bids, run_day
from reproduction.auction.log import LABEL, SCORE, candidates, log_of_day
from reproduction.auction.measure import account
from reproduction.auction.policies import HALF_LIFE_DAYS, WINDOW_DAYS, NightlyIsotonic, NoCalibration, policies

PRICINGS = ["second-price", "first-price"]


def simulated_day(seed: int, pricing: str, n: int = 800, budget_factor: float = 1.0):
    rng = np.random.default_rng(seed)
    market = markets.make_market(rng)
    views = markets.draw_views(n, rng)
    truth = markets.true_probability(market, market.first, views)
    used = markets.predicted_probability(market, views)
    budget = budget_factor * market.budgets(n)
    bid = bids(market.value, pricing)
    return market, views, truth, used, budget, bid, run_day(views, truth, used, bid, budget, pricing)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000), pricing=st.sampled_from(PRICINGS), factor=st.floats(0.05, 5.0))
def test_money_is_neither_made_nor_lost(seed, pricing, factor):
    market, views, truth, used, budget, bid, day = simulated_day(seed, pricing, budget_factor=factor)
    found = account(market, views, day, truth, used, budget)
    winner = views.candidate[np.arange(len(views)), day.shown]
    spent = np.bincount(winner[day.clicked], day.payment[day.clicked], markets.N_ADVERTISERS)
    np.testing.assert_allclose(spent, budget - day.left, atol=1e-9)
    assert (day.left >= -1e-9).all()
    assert found["revenue"] == pytest.approx(day.payment.sum())
    assert found["revenue"] + found["surplus"] == pytest.approx(found["value"])
    assert found["clicks"] <= found["impressions"] <= found["views"]
    assert (day.payment[~day.clicked] == 0.0).all()
    assert (day.payment[day.clicked] <= bid[winner[day.clicked]] + 1e-12).all()
    assert (day.payment[day.clicked] >= RESERVE - 1e-12).all()
    assert not day.clicked[~day.filled].any()


@pytest.mark.parametrize("pricing", PRICINGS)
def test_the_highest_score_wins_while_budgets_last(pricing):
    _, views, _, used, _, bid, day = simulated_day(1, pricing, budget_factor=1e6)
    score = bid[views.candidate] * used
    assert np.array_equal(day.shown, score.argmax(axis=1))


def test_second_price_is_the_least_bid_that_wins():
    _, views, _, used, _, bid, day = simulated_day(2, "second-price", budget_factor=1e6)
    clicked = np.flatnonzero(day.clicked)
    score = np.sort(bid[views.candidate] * used, axis=1)
    expected = np.maximum(score[clicked, -2] / used[clicked, day.shown[clicked]], RESERVE)
    np.testing.assert_allclose(day.payment[clicked], expected)


def test_first_price_is_the_bid():
    market, views, _, _, _, bid, day = simulated_day(3, "first-price", budget_factor=1e6)
    clicked = np.flatnonzero(day.clicked)
    np.testing.assert_allclose(day.payment[clicked], bid[views.candidate[clicked, day.shown[clicked]]])
    np.testing.assert_allclose(bid, SHADING * market.value)


def test_no_budget_no_ads():
    *_, day = simulated_day(4, "second-price", budget_factor=0.0)
    assert not day.filled.any()
    assert day.payment.sum() == 0.0


@pytest.mark.parametrize("pricing", PRICINGS)
def test_a_common_factor_changes_no_allocation(pricing):
    _, views, truth, used, budget, bid, day = simulated_day(5, pricing, budget_factor=1e6)
    scaled = run_day(views, truth, 0.5 * used, bid, budget, pricing)
    assert np.array_equal(day.shown, scaled.shown)
    np.testing.assert_allclose(day.payment, scaled.payment)


def test_candidates_of_a_view_are_distinct_and_the_seed_decides_all():
    first = markets.draw_views(200, np.random.default_rng(6))
    again = markets.draw_views(200, np.random.default_rng(6))
    assert np.array_equal(first.candidate, again.candidate)
    assert all(len(set(row)) == markets.N_CANDIDATES for row in first.candidate.tolist())


DAY = date(2022, 1, 1)


def log(seed: int, n_views: int = 4000):
    market = markets.make_market(np.random.default_rng(0))
    views = markets.draw_views(n_views, np.random.default_rng(seed))
    return log_of_day(market, market.first, views, "second-price")


def next_candidates(seed: int, n_views: int = 1000):
    market = markets.make_market(np.random.default_rng(0))
    views = markets.draw_views(n_views, np.random.default_rng(seed))
    return candidates(market, views, markets.predicted_probability(market, views))


@pytest.fixture(params=["mbct", "mbct-default"])
def deployed(request, tmp_path):
    policy = policies(tmp_path, 300, 0)[request.param]
    for number in range(3):
        policy.learn(DAY + timedelta(days=number), log(number))
    return policy


def test_a_log_holds_one_shown_ad_for_each_filled_view():
    found = log(1, 500)
    assert 0 < len(found) <= 500
    assert set(found.columns) == {*markets.FEATURES, SCORE, LABEL}
    assert set(found[LABEL].unique()) == {0, 1}


def test_the_store_holds_each_days_log_as_cells(deployed):
    batches = deployed.store.manifest().batches
    assert [batch.day for batch in batches] == ["2022-01-01", "2022-01-02", "2022-01-03"]
    for number, batch in enumerate(batches):
        expected = log(number)
        assert (batch.count, batch.label) == (len(expected), expected[LABEL].sum())
    window = deployed.store.window(half_life=HALF_LIFE_DAYS)
    faded = sum(0.5 ** ((2 - number) / HALF_LIFE_DAYS) * len(log(number)) for number in range(3))
    assert float(window.cells.total.count) == pytest.approx(faded)


def test_every_night_but_the_first_has_a_refresh_on_record(deployed):
    records = ModelRegistry(deployed.store).records()
    assert [record["decision"] for record in records] == [d["decision"] for d in deployed.decisions]
    assert [d["day"] for d in deployed.decisions] == ["2022-01-02", "2022-01-03"]
    assert records[-1]["holdout"]["last_day"] == "2022-01-03"
    assert records[-1]["training"]["last_day"] == "2022-01-02"


def test_the_exported_sql_scores_as_the_model_in_service(deployed):
    registry = ModelRegistry(deployed.store)
    rows = next_candidates(9)
    scorer = BatchScorer(registry.ensemble(registry.in_service()))
    expected = scorer.score_mapping({name: rows[name].to_numpy() for name in rows.columns})
    np.testing.assert_allclose(deployed.calibrate(rows), expected, rtol=1e-12)
    assert not np.allclose(expected, rows[SCORE].to_numpy())


def test_before_the_first_refresh_the_base_ranks(tmp_path):
    policy = policies(tmp_path, 300, 0)["mbct"]
    rows = next_candidates(9)
    policy.learn(DAY, log(1))
    assert np.array_equal(policy.calibrate(rows), rows[SCORE].to_numpy())


def ratio_of_predictions_to_clicks(policy, rows):
    return policy.calibrate(rows.drop(LABEL)).mean() / rows[LABEL].mean()


def test_retrained_policies_take_the_common_bias_away(deployed):
    isotonic = NightlyIsotonic()
    for number in range(3):
        isotonic.learn(DAY + timedelta(days=number), log(number))
    ratio = partial(ratio_of_predictions_to_clicks, rows=log(9, 8000))
    assert ratio(NoCalibration()) > 1.3
    assert abs(ratio(isotonic) - 1.0) < 0.15
    assert abs(ratio(deployed) - 1.0) < 0.15


def test_isotonic_regression_fades_older_days():
    """The mean of the calibrated log is its weighted click rate: isotonic regression keeps totals."""
    policy = NightlyIsotonic()
    logs = [log(number, 300) for number in range(WINDOW_DAYS + 2)]
    for number, found in enumerate(logs):
        policy.learn(DAY + timedelta(days=number), found)
    window = logs[-WINDOW_DAYS:]
    weight = np.repeat(0.5 ** (np.arange(WINDOW_DAYS)[::-1] / HALF_LIFE_DAYS), [len(found) for found in window])
    rows = pl.concat(window)
    expected = np.average(rows[LABEL].to_numpy(), weights=weight)
    assert np.average(policy.calibrate(rows), weights=weight) == pytest.approx(expected, rel=1e-9)
