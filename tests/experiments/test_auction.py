"""Accounting identities of the simulated market."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbct.experiments.auction import market as markets
from mbct.experiments.auction.auction import RESERVE, SHADING, bids, run_day
from mbct.experiments.auction.measure import account
from mbct.experiments.auction.policies import DECAY, NightlyIsotonic, NightlyMBCT, NoCalibration

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


def log_of_day(seed: int, n: int = 4000):
    rng = np.random.default_rng(seed)
    market = markets.make_market(np.random.default_rng(0))
    views = markets.draw_views(n // markets.N_CANDIDATES, rng)
    truth = markets.true_probability(market, market.first, views).ravel()
    base = markets.predicted_probability(market, views).ravel()
    return markets.features(market, views), base, (rng.random(len(base)) < truth).astype(float)


def test_cells_of_days_fade_and_add_up():
    policy = NightlyMBCT("paper", {"min_bin_size": 200})
    first, second = log_of_day(1), log_of_day(2)
    policy.learn(*first)
    policy.learn(*second)
    total = policy.cells.total
    assert float(total.count) == pytest.approx(DECAY * len(first[1]) + len(second[1]))
    assert float(total.label) == pytest.approx(DECAY * first[2].sum() + second[2].sum())
    assert float(total.pred) == pytest.approx(DECAY * first[1].sum() + second[1].sum())


@pytest.mark.parametrize("policy", [NightlyIsotonic(), NightlyMBCT("paper", {"min_bin_size": 200})])
def test_retrained_policies_take_the_common_bias_away(policy):
    for seed in (1, 2, 3):
        policy.learn(*log_of_day(seed, 8000))
    features, base, clicked = log_of_day(9, 8000)
    before = base.mean() / clicked.mean()
    after = policy.calibrate(features, base).mean() / clicked.mean()
    assert before > 1.3
    assert abs(after - 1.0) < 0.15


def test_no_calibration_leaves_the_base_as_it_is():
    features, base, clicked = log_of_day(1)
    policy = NoCalibration()
    policy.learn(features, base, clicked)
    assert policy.calibrate(features, base) is base
