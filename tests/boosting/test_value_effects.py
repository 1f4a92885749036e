from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbct.boosting.parts import Parts
from mbct.boosting.value_effects import effect_trees, fit_effects, grouped

N_VALUES = 300


def parts_with(effect, seed=0, n_rows=60_000, n_folds=5):
    """Rows of two categories: each value of the first moves the log-odds by its effect, the second tells nothing."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, N_VALUES, n_rows), rng.integers(0, 8, n_rows)]).astype(np.uint16)
    log_odds = rng.normal(-1.0, 1.0, n_rows)
    label = (rng.random(n_rows) < 1 / (1 + np.exp(-(log_odds + effect[codes[:, 0]])))).astype(float)
    return Parts(
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
        return fit_effects(parts, 5, pool)


def test_many_values_are_found_at_once_and_shrunk():
    truth = np.random.default_rng(1).normal(0.0, 0.5, N_VALUES)
    parts = parts_with(truth)
    effects = fit(parts)
    first, second = (np.mean(effects.steps, axis=0)[parts.offset[j] : parts.offset[j + 1]] for j in (0, 1))
    found = first[:N_VALUES]
    assert np.corrcoef(found, truth)[0, 1] > 0.92
    assert np.std(found) < np.std(truth)
    assert np.abs(second).max() < 0.02
    information = 200 * 0.15
    best_possible = 0.25 / (1 + 0.25 * information)
    assert np.var(found - (truth - truth.mean())) < 1.3 * best_possible


def test_effects_that_are_not_there_give_no_steps_worth_the_name():
    effects = fit(parts_with(np.zeros(N_VALUES)))
    assert effects is None or np.abs(effects.steps).max() < 0.05


def test_numbers_are_left_to_the_trees():
    parts = parts_with(np.ones(N_VALUES))
    numbers = Parts(**{**vars(parts), "ordered": np.array([True, True])})
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
    alone = Parts(**{**vars(parts), "fold": np.zeros(3, dtype=np.uint8)})
    effects = fit(alone)
    assert effects is None or np.all(np.isfinite(effects.steps))


def test_trees_hold_the_mean_of_the_folds():
    parts = parts_with(np.random.default_rng(1).normal(0.3, 0.5, N_VALUES))
    effects = fit(parts)
    trees = effect_trees(effects, 0.9, parts)
    assert all(len(tree.leaves) <= 64 for tree in trees)
    total = sum(tree.step[tree.apply(parts.codes)] for tree in trees)
    mean = 0.9 * np.mean([effects.step_of(k, parts.codes, parts.offset) for k in range(5)], axis=0)
    assert np.var(total - mean) < 1e-3 * np.var(mean)
    assert np.mean(total) == pytest.approx(np.mean(mean), abs=1e-3)


@settings(max_examples=50)
@given(st.lists(st.floats(-3, 3).map(lambda v: round(v, 4)), min_size=1, max_size=200), st.integers(1, 12))
def test_groups_are_few_ordered_and_hold_their_mean(values, most):
    values = np.array(values)
    mass = np.arange(1.0, len(values) + 1)
    group, mean = grouped(values, mass, most)
    assert len(mean) <= most or len(mean) == len(np.unique(values))
    assert np.all(np.diff(mean) > 0)
    assert set(group) == set(range(len(mean)))
    order = np.argsort(values, kind="stable")
    assert np.all(np.diff(group[order]) >= 0)
    for number, expected in enumerate(mean):
        own = group == number
        assert np.average(values[own], weights=mass[own]) == pytest.approx(expected, abs=1e-12)
