import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbct.stats.divisions import rows_as_bins, uniform_mass
from mbct.stats.multi_view import closed_form_mvce, monte_carlo_mvce, norm_over_views, shuffled_view_errors
from mbct.stats.partition_error import partition_error


def _sample(n, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 5, n)
    return p, (rng.random(n) < 0.8 * p).astype(float)


def test_all_divisions_of_a_tiny_set_come_up_equally_often():
    residual = np.array([0.9, -0.3, -0.2, 0.5, -0.6, 0.1])
    exact = [
        np.abs(residual[list(order)].reshape(3, 2).mean(axis=1)).mean() for order in itertools.permutations(range(6))
    ]
    drawn = shuffled_view_errors(residual, np.ones(6), n_bins=3, n_views=30_000, seed=3)
    values, expected = np.unique(np.round(exact, 9), return_counts=True)
    seen, found = np.unique(np.round(drawn, 9), return_counts=True)
    assert seen.tolist() == values.tolist()
    share = expected / len(exact)
    assert np.all(np.abs(found / 30_000 - share) < 5 * np.sqrt(share / 30_000))


@pytest.mark.parametrize("bin_size", [5, 37, 400])
@pytest.mark.parametrize("norm", [1.0, 2.0, 4.0])
def test_agrees_with_a_permutation_loop(bin_size, norm):
    p, y = _sample(2000)
    rng = np.random.default_rng(1)
    n_bins = 2000 // bin_size
    rows = rows_as_bins(p, y, np.ones(2000))
    loop = []
    for _ in range(200):
        order = rng.permutation(2000)
        shuffled = rows_as_bins(p[order], y[order], rows.count)
        loop.append(partition_error(uniform_mass(shuffled, n_bins)).mean())
    value, error = norm_over_views(np.asarray(loop), norm)
    ours = monte_carlo_mvce(p, y, np.ones(2000), bin_size=bin_size, n_views=200, norm=norm)
    assert ours.n_bins == n_bins
    assert ours.value == pytest.approx(value, abs=4 * np.hypot(error, ours.standard_error))
    assert ours.standard_error == pytest.approx(error, rel=0.25)  # two estimates from 200 views, 5 % each


def test_agrees_with_the_closed_form_where_bins_are_large():
    p, y = _sample(50_000)
    d = p - y
    for norm in (1.0, 2.0):
        exact = float(closed_form_mvce(50_000.0, d.sum(), (d * d).sum(), 1000.0, norm))
        ours = monte_carlo_mvce(p, y, np.ones(50_000), bin_size=1000, n_views=400, norm=norm)
        assert ours.value == pytest.approx(exact, rel=0.01)


@given(
    n=st.integers(1, 80),
    n_bins=st.integers(1, 30),
    seed=st.integers(0, 1000),
    fraction=st.sampled_from([0.0, 0.25, 0.7]),
)
@settings(max_examples=60, deadline=None)
def test_weights_copies_threads_and_row_order_change_nothing(n, n_bins, seed, fraction):
    p, y = _sample(n, seed)
    rng = np.random.default_rng(seed)
    w = rng.integers(1, 4, n).astype(float)
    alike = {"n_bins": n_bins, "n_views": 7, "seed": seed}
    weighted = monte_carlo_mvce(p, y, w, n_threads=1, **alike)
    copies = w.astype(int)
    copied = monte_carlo_mvce(np.repeat(p, copies), np.repeat(y, copies), np.ones(copies.sum()), n_threads=3, **alike)
    assert weighted == copied
    mixed = w + fraction * (rng.random(n) < 0.5)
    order = rng.permutation(n)
    assert monte_carlo_mvce(p, y, mixed, **alike) == monte_carlo_mvce(p[order], y[order], mixed[order], **alike)


@given(n=st.integers(1, 50), n_bins=st.integers(1, 60), seed=st.integers(0, 100))
@settings(max_examples=60, deadline=None)
def test_every_view_lies_between_the_bias_and_the_mean_absolute_residual(n, n_bins, seed):
    rng = np.random.default_rng(seed)
    residual, weight = rng.uniform(-1, 1, n), rng.uniform(0.1, 3.0, n)
    errors = shuffled_view_errors(residual, weight, n_bins, 5, seed)
    bias = abs(np.average(residual, weights=weight))
    assert np.all(errors >= bias - 1e-9)
    assert np.all(errors <= np.average(np.abs(residual), weights=weight) + 1e-9)


def test_one_bin_is_the_bias_and_has_no_error():
    p, y = _sample(500)
    result = monte_carlo_mvce(p, y, np.ones(500), n_bins=1)
    assert result.value == pytest.approx(abs(p.mean() - y.mean()))
    assert result.standard_error == pytest.approx(0.0, abs=1e-15)
    assert float(result) == result.value


def test_seeds_differ_and_repeat():
    p, y = _sample(500)
    first, again, other = (monte_carlo_mvce(p, y, np.ones(500), n_bins=20, seed=s) for s in (0, 0, 1))
    assert first == again
    assert first.value != other.value


def test_the_standard_error_is_that_of_repeated_runs():
    p, y = _sample(1000)
    results = [monte_carlo_mvce(p, y, np.ones(1000), n_bins=25, n_views=40, seed=s) for s in range(100)]
    spread = np.std([r.value for r in results], ddof=1)
    assert np.mean([r.standard_error for r in results]) == pytest.approx(spread, rel=0.3)


def test_a_perfect_prediction_has_no_error():
    y = np.array([0.0, 1.0, 1.0])
    result = monte_carlo_mvce(y, y, np.ones(3), n_bins=2)
    assert (result.value, result.standard_error) == (0.0, 0.0)
