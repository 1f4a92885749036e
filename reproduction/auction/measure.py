"""Fifteen days of the market in every bucket, and one day under predictors of every badness."""

from datetime import date, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import numpy as np

from mbct.metrics import auc, tce
from reproduction.arrays import FloatArray
from reproduction.auction import market as markets
from reproduction.auction.auction import Day, Pricing, bids, run_day
from reproduction.auction.deployed import DeployedMBCT
from reproduction.auction.log import candidates, log_of_day
from reproduction.auction.market import N_ADVERTISERS, N_CANDIDATES, Market, Views, World
from reproduction.auction.policies import HALF_LIFE_DAYS, TITLES, WINDOW_DAYS, Policy, policies
from reproduction.parts import Part
from reproduction.settings import Settings

EXPERIMENT = "auction"
WARM_UP_DAYS = 2
"""Days of logs before the test: a refresh fits on one and evaluates on the next."""
_DAY_ZERO = date(2022, 1, 1)
"""The day before the test; stores keep cells by date."""
SCALES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
KINDS = ("segment", "common")
"""Errors that differ between segments, and one that is the same everywhere."""
_COST, _QUICK_COST = 110.0, 6.0


def parts(settings: Settings) -> list[Part]:
    """For each pricing and market: the test of fifteen days, and the sweep over the predictor's error."""
    return [
        _part(settings, pricing, number, kind)
        for number in range(settings.repetitions)
        for pricing in get_args(Pricing)
        for kind in ("test", "sweep")
    ]


def _part(settings: Settings, pricing: Pricing, number: int, kind: str) -> Part:
    parameters: dict[str, Any] = {
        "pricing": pricing,
        "market": number,
        "seed": settings.seed,
        "views": 1500 if settings.quick else 8_000,
        "candidates": N_CANDIDATES,
    }
    name = f"{kind}-{pricing}-{number}"
    if kind == "sweep":
        parameters |= {"scales": SCALES}
        return Part(EXPERIMENT, name, parameters, partial(_sweep, parameters), __name__, 0.0)
    parameters |= {
        "days": 3 if settings.quick else 15,
        "rest_views": 6000 if settings.quick else 8_000,
        "min_bin_size": 500 if settings.quick else 1000,
        "window_days": WINDOW_DAYS,
        "half_life_days": HALF_LIFE_DAYS,
        "warm_up_days": WARM_UP_DAYS,
        "advertisers": N_ADVERTISERS,
    }
    cost = _QUICK_COST if settings.quick else _COST
    return Part(EXPERIMENT, name, parameters, partial(_test, parameters), __name__, cost)


def _test(parameters: dict[str, Any]) -> dict[str, Any]:
    """Every night all buckets learn the same log: that of the rest of the platform, which ranks by the base."""
    rng = np.random.default_rng([parameters["seed"], parameters["market"], 1])
    market = markets.make_market(rng)
    world, pricing = market.first, parameters["pricing"]
    days: dict[str, list[dict[str, float]]] = {name: [] for name in TITLES}
    with TemporaryDirectory(prefix="mbct-auction-") as folder:
        found = policies(Path(folder), parameters["min_bin_size"], parameters["seed"])
        for number in range(1 - WARM_UP_DAYS, parameters["days"] + 1):
            if number > 0:
                for name in TITLES:
                    views = markets.draw_views(parameters["views"], rng)
                    days[name].append(_bucket_day(market, world, views, found.get(name), pricing))
            rest = log_of_day(market, world, markets.draw_views(parameters["rest_views"], rng), pricing)
            if number < parameters["days"]:
                for policy in found.values():
                    policy.learn(_DAY_ZERO + timedelta(days=number), rest)
            world = world.drifted(rng)
        refreshes = {name: policy.decisions for name, policy in found.items() if isinstance(policy, DeployedMBCT)}
    return {"days": days, "refreshes": refreshes}


def _bucket_day(
    market: Market, world: World, views: Views, policy: Policy | None, pricing: Pricing
) -> dict[str, float]:
    truth, base = markets.true_probability(market, world, views), markets.predicted_probability(market, views)
    used = truth if policy is None else policy.calibrate(candidates(market, views, base)).reshape(base.shape)
    budget = market.budgets(len(views))
    day = run_day(views, truth, used, bids(market.value, pricing), budget, pricing)
    return account(market, views, day, truth, used, budget)


def account(
    market: Market, views: Views, day: Day, truth: FloatArray, used: FloatArray, budget: FloatArray
) -> dict[str, float]:
    """What a day brought to the platform and the advertisers, and how good the probabilities were."""
    rows = np.flatnonzero(day.filled)
    shown = day.shown[rows]
    winner = views.candidate[rows, shown]
    clicked = day.clicked[rows]
    value = float(market.value[winner[clicked]].sum())
    revenue = float(day.payment.sum())
    ranked = used[rows, shown]
    return {
        "views": float(len(views)),
        "impressions": float(len(rows)),
        "clicks": float(clicked.sum()),
        "revenue": revenue,
        "value": value,
        "surplus": value - revenue,
        "auc": float(auc(clicked.astype(np.float64), ranked)) if 0 < clicked.sum() < len(clicked) else 0.5,
        "candidate_auc": float(auc((views.luck < truth).astype(np.float64).ravel(), used.ravel())),
        "tce": float(tce(truth.ravel(), used.ravel())),
        "shown_bias": float(ranked.sum() / truth[rows, shown].sum()) if len(rows) else 1.0,
        "exhausted": float(np.mean(day.left < bids_floor(market, budget))),
    }


def bids_floor(market: Market, budget: FloatArray) -> FloatArray:
    """Below this an advertiser counts as having spent the budget: the value of a click, or a tenth of the budget."""
    return np.minimum(market.value, 0.1 * budget)


def _sweep(parameters: dict[str, Any]) -> dict[str, Any]:
    """One day ranked by the base with its errors scaled, beside the same day ranked by the truth."""
    rng = np.random.default_rng([parameters["seed"], parameters["market"], 2])
    market = markets.make_market(rng)
    views = markets.draw_views(5 * parameters["views"], rng)
    truth = markets.true_probability(market, market.first, views)
    pricing: Pricing = parameters["pricing"]
    bid, budget = bids(market.value, pricing), market.budgets(len(views))

    def outcome(used: FloatArray) -> dict[str, float]:
        return account(market, views, run_day(views, truth, used, bid, budget, pricing), truth, used, budget)

    found: dict[str, Any] = {"truth": outcome(truth)}
    for kind in KINDS:
        scaled = [market.with_bias(s, 0.0) if kind == "segment" else market.with_bias(0.0, s) for s in SCALES]
        found[kind] = [outcome(markets.predicted_probability(m, views)) for m in scaled]
    return found
