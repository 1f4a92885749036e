import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from mbct.stats.divisions import atoms_by_prediction
from mbct.stats.probabilities import auc_by_group, auc_of_atoms, reorder_rate


def _sample(seed, ties):
    rng = np.random.default_rng(seed)
    p = rng.integers(0, 9, 400) / 9 if ties else rng.random(400)
    return p, (rng.random(400) < p).astype(float), rng.uniform(0.1, 4, 400), rng.integers(0, 6, 400)


@pytest.mark.parametrize("ties", [False, True])
def test_equals_scikit_learn(ties):
    p, y, w, _ = _sample(0, ties)
    assert auc_of_atoms(atoms_by_prediction(p, y, w)) == pytest.approx(roc_auc_score(y, p, sample_weight=w))


@pytest.mark.parametrize("ties", [False, True])
def test_groups_equal_one_by_one(ties):
    p, y, w, group = _sample(1, ties)
    y[group == 2] = 1.0
    areas = auc_by_group(p, y, w, group, 8)
    for g in (0, 1, 3, 4, 5):
        m = group == g
        assert areas[g] == pytest.approx(roc_auc_score(y[m], p[m], sample_weight=w[m]))
    assert [g for g in range(8) if math.isnan(areas[g])] == [2, 6, 7]


few_values = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=30)


def by_hand(before, after):
    pairs = [(i, j) for i, j in itertools.combinations(range(len(before)), 2) if before[i] != before[j]]
    turned = sum((before[i] - before[j]) * (after[i] - after[j]) < 0 for i, j in pairs)
    return turned / len(pairs) if pairs else 0.0


@given(few_values)
def test_it_counts_the_pairs_one_by_one(rows):
    before, after = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    assert reorder_rate(before, after) == by_hand(before, after)


def test_the_same_order_is_nothing_and_the_reverse_everything():
    values = np.random.default_rng(0).random(1000)
    assert reorder_rate(values, values**3) == 0.0
    assert reorder_rate(values, -values) == 1.0
