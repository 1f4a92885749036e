import numpy as np
import pytest

import mbct.metrics as metrics
from mbct.errors import ParameterError


def _sample(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 6, n)
    return (rng.random(n) < 0.9 * p).astype(int), p


def test_monte_carlo_meets_the_closed_form():
    y, p = _sample()
    for norm in (1, 2):
        drawn = metrics.mvce(y, p, bin_size=200, norm=norm, n_views=400)
        exact = metrics.mvce(y, p, bin_size=200, norm=norm, method="closed-form")
        assert drawn == pytest.approx(exact, rel=0.02)
        assert drawn.n_bins == exact.n_bins == 20
        assert exact.standard_error == 0.0


def test_one_sorted_view_is_the_ece():
    y, p = _sample()
    assert metrics.mvce(y, p, views="sorted", n_bins=20) == metrics.ece(y, p, n_bins=20)


def test_views_by_features_are_field_errors():
    y, p = _sample()
    by = {"a": np.arange(4000) % 3, "b": np.arange(4000) % 7}
    each = [metrics.field_ece(y, p, by[name]) for name in by]
    assert metrics.mvce(y, p, views="features", features=by) == pytest.approx(np.sqrt(np.mean(np.square(each))))
    assert metrics.mvce(y, p, views="features", features=by, norm=1) == pytest.approx(np.mean(each))


def test_shuffling_misses_a_bias_that_cancels_between_segments():
    rng = np.random.default_rng(1)
    site = np.repeat(["a", "b"], 20_000)
    right = rng.uniform(0.1, 0.3, 40_000)
    y = (rng.random(40_000) < right).astype(int)
    biased = np.where(site == "a", 1.3, 0.7) * right
    shuffled = [metrics.mvce(y, p, n_bins=40) for p in (right, biased)]
    by_site = [metrics.mvce(y, p, views="features", features={"site": site}) for p in (right, biased)]
    assert shuffled[1] < 1.1 * shuffled[0]
    assert by_site[1] > 10 * by_site[0]


def test_default_is_the_32_bins_of_the_papers_simulation():
    y, p = _sample(500)
    assert metrics.mvce(y, p).n_bins == 32


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bin_size": 10, "n_bins": 3}, "give bin_size or n_bins, not both"),
        ({"bin_size": 0}, "bin_size must be above 0, got 0"),
        ({"views": "random"}, "views must be one of 'shuffle', 'sorted', 'features', got 'random'"),
        ({"views": "features"}, "features go with views='features' and with nothing else, got views='features'"),
        ({"features": [1, 2]}, "features go with views='features' and with nothing else, got views='shuffle'"),
        ({"method": "exact"}, "method must be one of 'monte-carlo', 'closed-form', got 'exact'"),
        ({"method": "closed-form", "norm": 3}, "the closed form covers norms 1 and 2, got 3"),
        ({"norm": float("inf")}, "norm must be a number of at least 1 and finite, got inf"),
        ({"n_views": 0}, "n_views must be a whole number of at least 1, got 0"),
        ({"sample_weight": [1e12, 1]}, "sample_weight sums to 1e\\+12, and a shuffle would spread as many copies"),
    ],
)
def test_senseless_parameters_are_named(options, message):
    with pytest.raises(ParameterError, match=message):
        metrics.mvce([0, 1], [0.2, 0.8], **options)
