"""One day of auctions: who is shown, what a click costs, and whose budget is spent."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from numba import njit

from reproduction.arrays import FloatArray
from reproduction.auction.market import Views

Pricing = Literal["second-price", "first-price"]
RESERVE = 0.05
"""Least price of a click."""
SHADING = 0.75
"""In the first-price auction advertisers bid this share of a click's value; in the second-price auction all of it."""


@dataclass(frozen=True)
class Day:
    """Outcome of each page view; ``shown`` is −1 where no candidate could pay."""

    shown: npt.NDArray[np.int64]
    """Position among the candidates."""
    clicked: npt.NDArray[np.bool_]
    payment: FloatArray
    left: FloatArray
    """Budget left to each advertiser."""

    @property
    def filled(self) -> npt.NDArray[np.bool_]:
        """Page views on which an ad was shown."""
        return self.shown >= 0


def bids(value: FloatArray, pricing: Pricing) -> FloatArray:
    """What advertisers bid for a click."""
    return value if pricing == "second-price" else SHADING * value


def run_day(
    views: Views, truth: FloatArray, ranked_by: FloatArray, bid: FloatArray, budget: FloatArray, pricing: Pricing
) -> Day:
    """Show the candidate with the highest bid × pCTR among those who can still pay their bid; charge for a click.

    In the second-price auction a click costs the least bid that would have won: the runner-up's bid × pCTR over the
    winner's pCTR. Both have a reserve price.
    """
    return Day(*_run(views.candidate, ranked_by, views.luck < truth, bid, budget, pricing == "first-price", RESERVE))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]  # numba ships no types
def _run(  # type: ignore[no-untyped-def]  # numba infers them
    candidate, ranked_by, would_click, bid, budget, first_price: bool, reserve: float
):
    n = len(candidate)
    shown = np.full(n, -1, np.int64)
    clicked = np.zeros(n, np.bool_)
    payment = np.zeros(n)
    left = budget.copy()
    for i in range(n):
        best = -1
        best_score = 0.0
        second_score = 0.0
        for j in range(candidate.shape[1]):
            advertiser = candidate[i, j]
            if left[advertiser] < bid[advertiser] or bid[advertiser] < reserve:
                continue
            score = bid[advertiser] * ranked_by[i, j]
            if best < 0 or score > best_score:
                second_score = best_score
                best, best_score = j, score
            elif score > second_score:
                second_score = score
        if best < 0:
            continue
        shown[i] = best
        if would_click[i, best]:
            winner = candidate[i, best]
            price = bid[winner]
            if not first_price:
                price = min(max(second_score / max(ranked_by[i, best], 1e-12), reserve), bid[winner])
            clicked[i] = True
            payment[i] = price
            left[winner] -= price
    return shown, clicked, payment, left
