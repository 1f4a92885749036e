import numpy as np
import pytest
from scipy.stats import binomtest, t

from mbct.stats.confidence import betting, by_blocks, rate_ends


@pytest.mark.parametrize("positives", [0, 2, 17, 49, 50])
@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_ends_of_a_rate_are_those_of_clopper_and_pearson(positives, alpha):
    expected = binomtest(positives, 50).proportion_ci(1 - alpha, "exact")
    low, high = rate_ends(np.array([float(positives)]), np.array([50.0]), alpha)
    assert (low[0], high[0]) == (
        pytest.approx(expected.low, abs=1e-12),
        # With a single negative the mirror image of a single positive: a little wider, see the docstring.
        pytest.approx(1 - alpha / 2 / 50 if positives == 49 else expected.high, abs=1e-12),
    )


def law_of_sum(rates):
    law = np.ones(1)
    for rate in rates:
        law = np.convolve(law, [1 - rate, rate])
    return law


@pytest.mark.parametrize("alpha", [0.5, 0.1, 0.02])
@pytest.mark.parametrize("seed", range(200))
def test_a_rate_is_covered_whatever_the_rates_of_single_labels(seed, alpha):
    """Exact coverage: the law of the number of positives is known, each number has its interval."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 25))
    rates = rng.beta(*(10 ** rng.uniform(-2, 1.5, 2)), rows) * rng.choice([1.0, 0.1, 0.01])
    if seed % 4 == 0:
        rates = np.where(np.arange(rows) == 0, min(rates.sum(), 1.0), 0.0)  # all of the mean in one row
    low, high = rate_ends(np.arange(rows + 1.0), np.full(rows + 1, float(rows)), alpha)
    covered = (low <= rates.mean() + 1e-12) & (rates.mean() <= high + 1e-12)
    assert np.sum(law_of_sum(rates)[covered]) >= 1 - alpha - 1e-9


def test_no_rows_say_nothing():
    low, high = rate_ends(np.zeros(1), np.zeros(1), 0.05)
    assert (low[0], high[0]) == (0.0, 1.0)
    lower, upper = betting(np.array([0.5]), np.array([1]), np.full(2, 0.2), 0.05)
    assert (lower[0], upper[0]) == (-1.0, 1.0)


@pytest.mark.parametrize("rate", [0.01, 0.3])
def test_betting_covers_and_narrows(rate):
    rng = np.random.default_rng(0)
    widths = []
    for size in (200, 2000):
        y = rng.random((400, size)) < rate
        lower, upper = betting(
            (y - rate).ravel(), np.repeat(np.arange(400), size), np.full(400, rate * (1 - rate)), 0.1
        )
        mean = (y - rate).mean(axis=1)
        assert np.all((lower < mean) & (mean < upper))
        assert np.mean((lower <= 0) & (upper >= 0)) >= 0.9
        widths.append(np.mean(upper - lower))
    assert widths[1] < widths[0] / 2


def test_equal_blocks_give_student_s_interval_of_their_means():
    rng = np.random.default_rng(1)
    means = rng.normal(0, 0.05, 20)
    lower, upper = by_blocks(np.repeat(means, 7), np.repeat([0, -1], [140, 0]), 1, np.repeat(np.arange(20), 7), 0.05)
    expected = t.interval(0.95, 19, means.mean(), means.std(ddof=1) / np.sqrt(20))
    assert (lower[0], upper[0]) == pytest.approx(expected)


def test_one_block_says_nothing():
    lower, upper = by_blocks(np.zeros(5), np.zeros(5, dtype=int), 1, np.zeros(5, dtype=int), 0.05)
    assert (lower[0], upper[0]) == (-1.0, 1.0)
