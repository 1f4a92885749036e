"""A day's log of shown ads, and the candidates of a day, as frames."""

from typing import Any

from reproduction.arrays import FloatArray
from reproduction.auction import market as markets
from reproduction.auction.auction import Pricing, bids, run_day
from reproduction.auction.market import N_CANDIDATES, Market, Views, World
from reproduction.datasets.reading import polars

SCORE, LABEL = "pctr", "click"


def candidates(market: Market, views: Views, base: FloatArray) -> Any:
    """Every candidate of every page view with its features and the base's pCTR."""
    return polars().DataFrame({**markets.features(market, views), SCORE: base.ravel()})


def log_of_day(market: Market, world: World, views: Views, pricing: Pricing) -> Any:
    """The ads that were shown where the base ranks, and whether they were clicked."""
    truth, base = markets.true_probability(market, world, views), markets.predicted_probability(market, views)
    day = run_day(views, truth, base, bids(market.value, pricing), market.budgets(len(views)), pricing)
    rows = day.filled.nonzero()[0]
    shown = candidates(market, views, base)[rows * N_CANDIDATES + day.shown[rows]]
    return shown.with_columns(polars().Series(LABEL, day.clicked[rows].astype("int8")))
