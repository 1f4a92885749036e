import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbct.training.binned_rows import BinnedRows
from mbct.training.offsets import Offsets, grouped, offset_trees, strongest

N_CODES = (300, 12)


def random_parts(n_rows=20_000, n_folds=5):
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, n - 2, n_rows) for n in N_CODES]).astype(np.uint16)
    label = (rng.random(n_rows) < 0.3).astype(float)
    fold = (np.arange(n_rows) % n_folds).astype(np.uint8)
    offset = np.array([0, N_CODES[0], sum(N_CODES)])
    return BinnedRows(
        codes, np.zeros(n_rows), np.ones(n_rows), label, fold, offset, np.array([False] * 2), np.array([0, 1])
    )


def random_steps(spreads=(0.5, 0.1)):
    rng = np.random.default_rng(1)
    return np.concatenate([rng.normal(0.0, spread, n) for spread, n in zip(spreads, N_CODES, strict=True)])


def total(trees, parts):
    return sum(tree.leaf_value[tree.apply(parts.codes)] for tree in trees)


def test_trees_of_one_split_hold_the_steps():
    parts, steps = random_parts(), random_steps()
    trees = offset_trees((0, 1), steps, 0.3, parts)
    wanted = 0.3 + steps[parts.codes[:, 0]] + steps[N_CODES[0] + parts.codes[:, 1].astype(int)]
    assert all(len(tree.leaves) <= 64 for tree in trees)
    assert np.var(total(trees, parts) - wanted) < 2e-3 * np.var(wanted)
    assert np.mean(total(trees, parts)) == pytest.approx(np.mean(wanted), abs=1e-3)


def test_a_feature_without_steps_needs_no_tree():
    parts, steps = random_parts(), random_steps((0.5, 0.0))
    assert [tree.feature[0] for tree in offset_trees((0, 1), steps, 0.0, parts)] == [0]


def test_held_out_log_odds_are_those_of_the_fold_that_left_the_row_out():
    parts = random_parts(200, n_folds=80)
    log_odds = tuple(np.full(200, float(k)) for k in range(80))
    offsets = Offsets((0,), (np.zeros(sum(N_CODES)),) * 80, (0.0,) * 80, log_odds)
    assert offsets.held_out(parts).tolist() == parts.fold.tolist()


def test_the_strongest_are_kept_with_fewer_groups():
    parts = random_parts()
    weight = [np.bincount(parts.codes[:, j], minlength=n).astype(float) for j, n in enumerate(N_CODES)]
    trees = offset_trees((0, 1), random_steps(), 0.0, parts)
    counted = [
        type(tree)(tree.feature, tree.table_start, tree.table, tree.leaf_value, sums, sums, sums)
        for j, tree in enumerate(trees)
        for sums in [np.append(weight[j].sum(), [weight[j][tree.table == leaf].sum() for leaf in tree.leaves])]
    ]
    (kept,) = strongest(counted, 1, 16)
    assert kept.feature[0] == 0
    assert len(kept.leaves) <= 16
    atomic = total([counted[0]], parts)
    assert np.var(total([kept], parts) - atomic) < 0.02 * np.var(atomic)
    unseen = np.array([[N_CODES[0] - 1, 0]], dtype=np.uint16)
    assert kept.apply(unseen).tolist() == [0]
    both = strongest(counted, 2, 16)
    assert [tree.feature[0] for tree in both] == [0, 1]


@settings(max_examples=50)
@given(st.lists(st.floats(-3, 3).map(lambda v: round(v, 4)), min_size=1, max_size=200), st.integers(1, 12))
def test_groups_are_few_ordered_and_hold_their_mean(values, most):
    values = np.array(values)
    weight = np.arange(1.0, len(values) + 1)
    group, mean = grouped(values, weight, most)
    assert len(mean) <= most or len(mean) == len(np.unique(values))
    assert np.all(np.diff(mean) > 0)
    assert set(group) == set(range(len(mean)))
    order = np.argsort(values, kind="stable")
    assert np.all(np.diff(group[order]) >= 0)
    for number, expected in enumerate(mean):
        own = group == number
        assert np.average(values[own], weights=weight[own]) == pytest.approx(expected, abs=1e-12)
