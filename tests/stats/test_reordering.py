import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mbct.stats.reordering import reorder_rate

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
