"""Rounds of boosting: when they end, and when an attempt is given up."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mbct.training.boosting import BoostingOptions, CrossFittedBoosting
from mbct.training.tree_size import _out_of_reach


class ScriptedFold:
    """A fold whose held-out loss after each round is known."""

    def __init__(self, loss_after):
        self.loss_after = loss_after
        self.held_out_rows = np.arange(3, dtype=np.int32)
        self.log_odds = np.zeros(3)
        self.n_rounds = 0

    def grow(self):
        self.n_rounds += 1
        self.log_odds += 1.0
        return self.held_out_loss()

    def held_out_loss(self):
        return self.loss_after(self.n_rounds)


def boosted(loss_after, until=None, **arguments):
    boosting = CrossFittedBoosting([ScriptedFold(loss_after)], 1.0, BoostingOptions(max_trees=600))
    with ThreadPoolExecutor(1) as pool:
        boosting.run(pool, lambda _: None, until=until, **arguments)
    return boosting


def falling(floor, scale):
    return lambda n: floor + (1.0 - floor) * np.exp(-n / scale)


def test_rounds_end_after_the_patience_and_the_best_round_is_remembered():
    found = boosted(lambda n: (n - 50.0) ** 2)
    assert (found.n_trees, found.n_rounds) == (50, 90)
    assert np.array_equal(found.held_out, np.full(3, 50.0))


@pytest.mark.parametrize(("floor", "is_given_up"), [(0.6, True), (0.4, False)])
def test_an_attempt_is_given_up_early_only_where_it_cannot_catch_up(floor, is_given_up):
    best = boosted(falling(0.5, 20.0), until=150)
    found = boosted(falling(floor, 100.0), beaten=_out_of_reach(best))
    assert found.stopped
    assert (found.n_rounds < 3 * best.n_trees) == is_given_up
    assert (found.loss < best.loss) != is_given_up


@pytest.mark.parametrize("scale", [30.0, 100.0, 300.0])
def test_the_foreseen_loss_is_below_that_of_a_loss_that_falls_ever_slower(scale):
    found = boosted(falling(0.5, scale), until=200)
    assert found.lowest_by(500) < falling(0.5, scale)(500) + 1e-12
    slowly = boosted(lambda n: 0.5 + 0.5 / (1.0 + n / scale), until=200)
    assert slowly.lowest_by(500) < 0.5 + 0.5 / (1.0 + 500.0 / scale)


def test_nothing_is_foreseen_from_few_rounds_or_a_loss_that_rises():
    assert boosted(falling(0.5, 100.0), until=80).lowest_by(500) == 0.0
    assert boosted(lambda n: 1.0 + n, until=30).lowest_by(500) == 0.0
