from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mbct.training.binned_rows import BinnedRows
from mbct.training.offsets import fit_recalibration
from mbct.training.value_offsets import fit_value_offsets, posterior_steps, refitted

N_VALUES = 300


def parts_with(effect, seed=0, n_rows=60_000, n_folds=5):
    """Rows of two categories: each value of the first moves the log-odds by its effect, the second tells nothing."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, N_VALUES, n_rows), rng.integers(0, 8, n_rows)]).astype(np.uint16)
    log_odds = rng.normal(-1.0, 1.0, n_rows)
    label = (rng.random(n_rows) < 1 / (1 + np.exp(-(log_odds + effect[codes[:, 0]])))).astype(float)
    return BinnedRows(
        codes,
        log_odds,
        np.ones(n_rows),
        label,
        (np.arange(n_rows) % n_folds).astype(np.uint8),
        np.array([0, N_VALUES + 2, N_VALUES + 12]),
        np.array([False, False]),
        np.array([0, 1]),
    )


def fit(parts, n_threads=2):
    with ThreadPoolExecutor(n_threads) as pool:
        return fit_value_offsets(parts, 5, pool)


def test_many_values_are_found_at_once_and_shrunk():
    truth = np.random.default_rng(1).normal(0.0, 0.5, N_VALUES)
    parts = parts_with(truth)
    offsets = fit(parts)
    first, second = (np.mean(offsets.steps, axis=0)[parts.offset[j] : parts.offset[j + 1]] for j in (0, 1))
    found = first[:N_VALUES]
    assert np.corrcoef(found, truth)[0, 1] > 0.92
    assert np.std(found) < np.std(truth)
    assert np.abs(second).max() < 0.02
    information = 200 * 0.15
    best_possible = 0.25 / (1 + 0.25 * information)
    assert np.var(found - (truth - truth.mean())) < 1.3 * best_possible


def test_offsets_of_noise_are_rarely_kept_and_always_small():
    """Held-out rows of noise gain by luck at times; offsets of spread 0.5 are found with a spread of about 0.3."""
    found = [fit(parts_with(np.zeros(N_VALUES), seed, n_rows=10_000)) for seed in range(40)]
    kept = [np.std(np.mean(offsets.steps, axis=0)[:N_VALUES]) for offsets in found if offsets is not None]
    assert len(kept) <= 10
    assert max(kept, default=0.0) < 0.05
    true = fit(parts_with(np.random.default_rng(1).normal(0.0, 0.5, N_VALUES), n_rows=10_000))
    assert np.std(np.mean(true.steps, axis=0)[:N_VALUES]) > 0.2


def test_numbers_are_left_to_the_trees():
    parts = parts_with(np.ones(N_VALUES))
    numbers = BinnedRows(**{**vars(parts), "ordered": np.array([True, True])})
    assert fit(numbers) is None


def test_threads_do_not_matter_and_log_odds_agree_with_steps():
    parts = parts_with(np.linspace(-1, 1, N_VALUES), n_rows=5_000)
    one, two = fit(parts, 1), fit(parts, 2)
    for k in range(5):
        assert np.array_equal(one.steps[k], two.steps[k])
        moved = parts.log_odds + one.step_of(k, parts.codes, parts.offset)
        assert moved == pytest.approx(one.log_odds[k], abs=1e-9)


def test_a_fold_without_rows_to_learn_from_is_no_fault():
    parts = parts_with(np.zeros(N_VALUES), n_rows=3)
    alone = BinnedRows(**{**vars(parts), "fold": np.zeros(3, dtype=np.uint8)})
    assert fit(alone) is None


def test_sparse_effects_are_told_from_values_that_are_right():
    rng = np.random.default_rng(3)
    truth = np.where(rng.random(2_000) < 0.2, rng.normal(0.0, 0.8, 2_000), 0.0)
    curvature = rng.uniform(5.0, 60.0, 2_000)
    pull = curvature * truth + rng.normal(0.0, np.sqrt(curvature))
    weights = np.full(7, 1 / 7)
    for _ in range(5):
        found, weights = posterior_steps(pull, curvature, weights)
    variance = np.mean(truth**2)
    one_normal = pull / (curvature + 1 / variance)
    assert np.mean((found - truth) ** 2) < 0.9 * np.mean((one_normal - truth) ** 2)
    assert weights.sum() == pytest.approx(1.0)
    assert weights[:2].sum() > 0.6


def test_a_value_without_rows_gets_no_step():
    found, _ = posterior_steps(np.array([5.0, 0.0]), np.array([10.0, 0.0]), np.full(7, 1 / 7))
    assert found[0] > 0.0
    assert found[1] == 0.0


def test_a_line_is_fitted_beside_effects():
    truth = np.random.default_rng(1).normal(0.0, 0.5, 10)
    parts = parts_with(np.resize(truth, N_VALUES))
    codes = parts.codes.copy()
    codes[:, 1] = codes[:, 0] % 10
    edges = np.quantile(parts.log_odds, np.linspace(0, 1, 101)[1:-1])
    codes[:, 0] = np.searchsorted(edges, parts.log_odds)
    steep = BinnedRows(
        **{**vars(parts), "codes": codes, "log_odds": 2.0 * parts.log_odds, "ordered": np.array([True, False])}
    )
    with ThreadPoolExecutor(2) as pool:
        offsets = fit_value_offsets(steep, 5, pool)
        both = fit_recalibration(steep, 5, pool, offsets)
    assert offsets.features == (1,)
    assert both.features == (1, 0)
    assert steep.held_out_loss(both.log_odds) < steep.held_out_loss(offsets.log_odds)
    for k in range(5):
        moved = steep.log_odds + both.step_of(k, steep.codes, steep.offset)
        assert moved == pytest.approx(both.log_odds[k], abs=1e-7)
    held_out = both.held_out(steep)
    assert np.corrcoef(held_out, parts.log_odds + np.resize(truth, N_VALUES)[parts.codes[:, 0]])[0, 1] > 0.98


def test_all_rows_are_shrunk_less_than_four_fifths_of_them():
    truth = np.random.default_rng(1).normal(0.0, 0.5, N_VALUES)
    parts = parts_with(truth, n_rows=20_000)
    offsets = fit(parts)
    steps, constant = refitted(offsets, parts, lambda: np.zeros(len(parts.weight)))
    mean = np.mean(offsets.steps, axis=0)
    centred = truth - truth.mean()
    assert np.isfinite(constant)
    assert np.std(steps[:N_VALUES]) > np.std(mean[:N_VALUES])
    assert np.mean((steps[:N_VALUES] - centred) ** 2) < np.mean((mean[:N_VALUES] - centred) ** 2)
