"""The simulated market: users, advertisers, what they click, and a predictor that is wrong by segment.

The true click probability of an ad is logistic in its quality and in how the user's device and age suit the ad's
category; all of these drift from day to day. The predictor knows the world of day 0, flattened, with noise of its own
for each candidate, one error common to all and one for each pair of device and category.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from reproduction.arrays import FloatArray

IntArray = npt.NDArray[np.int64]

N_ADVERTISERS = 40
N_CATEGORIES, N_DEVICES, N_AGES, N_AREAS, N_SLOTS = 8, 3, 6, 10, 4
N_CANDIDATES = 8
FEATURES = ("device", "age", "area", "slot", "category", "advertiser")
_BASE_LOG_ODDS = -3.3
_FLATTENED = 0.9
_NOISE = 0.3
_COMMON_BIAS = 0.35
_SEGMENT_BIAS = 0.5
_DRIFT = 0.08
_BUDGET_PER_VIEW = 0.06
"""Mean daily budget of an advertiser times their number, for each page view: binding for about a quarter of them."""


@dataclass(frozen=True)
class World:
    """What decides clicks on one day."""

    quality: FloatArray
    by_device: FloatArray
    by_age: FloatArray
    by_area: FloatArray
    by_slot: FloatArray

    def drifted(self, rng: np.random.Generator) -> "World":
        """The next day's world."""

        def moved(values: FloatArray) -> FloatArray:
            return values + rng.normal(0.0, _DRIFT, values.shape)

        return replace(self, quality=moved(self.quality), by_device=moved(self.by_device), by_age=moved(self.by_age))

    def log_odds(self, views: "Views", category: IntArray) -> FloatArray:
        """Log-odds of a click for each candidate of each page view."""
        device, age, area, slot = (views.user[:, j, None] for j in range(4))
        return np.asarray(
            _BASE_LOG_ODDS
            + self.quality[views.candidate]
            + self.by_device[device, category]
            + self.by_age[age, category]
            + self.by_area[area]
            + self.by_slot[slot]
        )


@dataclass(frozen=True)
class Market:
    """Advertisers, the first day's world, and the predictor's error by segment and in common."""

    category: IntArray
    value: FloatArray
    budget_share: FloatArray
    first: World
    segment_bias: FloatArray
    common_bias: float

    def budgets(self, n_views: int) -> FloatArray:
        """Daily budgets for a bucket of so many page views."""
        return self.budget_share * _BUDGET_PER_VIEW * n_views / N_ADVERTISERS

    def with_bias(self, segment: float, common: float) -> "Market":
        """The same market with the predictor's two errors scaled."""
        return replace(self, segment_bias=segment * self.segment_bias, common_bias=common * self.common_bias)


@dataclass(frozen=True)
class Views:
    """Page views: user features (device, age, area, slot) and candidates, with what chance has in store for each."""

    user: IntArray
    candidate: IntArray
    luck: FloatArray
    """A candidate that is shown is clicked if this is below its click probability."""
    noise: FloatArray

    def __len__(self) -> int:
        return len(self.user)


def make_market(rng: np.random.Generator) -> Market:
    """A market at random."""
    category = rng.integers(0, N_CATEGORIES, N_ADVERTISERS)
    world = World(
        rng.normal(0.0, 0.4, N_ADVERTISERS),
        rng.normal(0.0, 0.4, (N_DEVICES, N_CATEGORIES)),
        rng.normal(0.0, 0.4, (N_AGES, N_CATEGORIES)),
        rng.normal(0.0, 0.2, N_AREAS),
        rng.normal(0.0, 0.3, N_SLOTS),
    )
    bias = rng.normal(0.0, _SEGMENT_BIAS, (N_DEVICES, N_CATEGORIES))
    return Market(
        category,
        np.exp(rng.normal(0.0, 0.4, N_ADVERTISERS)),
        np.exp(rng.normal(0.0, 0.5, N_ADVERTISERS)),
        world,
        bias - bias.mean(),
        _COMMON_BIAS,
    )


def draw_views(n: int, rng: np.random.Generator) -> Views:
    """``n`` page views, each with distinct candidates."""
    user = np.column_stack([rng.integers(0, k, n) for k in (N_DEVICES, N_AGES, N_AREAS, N_SLOTS)])
    candidate = np.argsort(rng.random((n, N_ADVERTISERS)), axis=1)[:, :N_CANDIDATES]
    return Views(user, candidate, rng.random((n, N_CANDIDATES)), rng.normal(0.0, _NOISE, (n, N_CANDIDATES)))


def true_probability(market: Market, world: World, views: Views) -> FloatArray:
    """Click probability of each candidate, page views by candidates."""
    return np.asarray(expit(world.log_odds(views, market.category[views.candidate])))


def predicted_probability(market: Market, views: Views) -> FloatArray:
    """The base predictor's pCTR of each candidate."""
    category = market.category[views.candidate]
    known = market.first.log_odds(views, category)
    bias = market.common_bias + market.segment_bias[views.user[:, 0, None], category]
    return np.asarray(expit(_FLATTENED * (known - _BASE_LOG_ODDS) + _BASE_LOG_ODDS + bias + views.noise))


def features(market: Market, views: Views) -> dict[str, npt.NDArray[Any]]:
    """Calibration features of every candidate, flat."""
    n = len(views)
    device, age, area, slot = (np.repeat(views.user[:, j], N_CANDIDATES) for j in range(4))
    advertiser = views.candidate.reshape(n * N_CANDIDATES)
    columns = (device, age, area, slot, market.category[advertiser], advertiser)
    return dict(zip(FEATURES, columns, strict=True))
