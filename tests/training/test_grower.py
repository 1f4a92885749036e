import numpy as np
import pytest

from mbct.training.binned_rows import BinnedRows
from mbct.training.grower import grow_tree
from mbct.training.nodes import TreeOptions

N_VALUES = 6


def grown(rate_of_value, options, n_rows=6_000):
    """One tree on a single number of six values, each with a label rate of its own, from a score of 0.5."""
    codes = (np.arange(n_rows) % N_VALUES).astype(np.uint8)[:, None]
    label = np.asarray(rate_of_value, dtype=float)[codes[:, 0]]
    fold = np.zeros(n_rows, dtype=np.uint8)
    offset, feature = np.array([0, N_VALUES + 2]), np.array([0])
    rows = BinnedRows(codes, np.zeros(n_rows), np.ones(n_rows), label, fold, offset, np.array([True]), feature)
    gradient = np.zeros((n_rows, 4), dtype=np.float32)
    return grow_tree(rows, rows.all_rows, feature, rows.log_odds, label, gradient, options, np.uint64(3))


def sides(tree):
    """Child of each known value at the root."""
    return tree.table[:N_VALUES].tolist()


@pytest.mark.parametrize("cross_fitted", [True, False])
def test_numbers_of_few_values_are_cut_into_sets_where_their_order_tells_nothing(cross_fitted):
    tree = grown([0.2, 0.8, 0.2, 0.8, 0.2, 0.8], TreeOptions(max_leaves=2, cross_fitted=cross_fitted))
    even, odd = sides(tree)[::2], sides(tree)[1::2]
    assert len(set(even)) == len(set(odd)) == 1
    assert even[0] != odd[0]


def test_numbers_of_many_values_are_cut_at_a_threshold():
    tree = grown([0.2, 0.8, 0.2, 0.8, 0.2, 0.8], TreeOptions(max_leaves=2, free_values=N_VALUES - 1))
    assert len(set(sides(tree))) == 2
    assert sides(tree) == sorted(sides(tree))


@pytest.mark.parametrize("cross_fitted", [True, False])
def test_a_threshold_that_gains_as_much_is_preferred(cross_fitted):
    rising = grown([0.2, 0.2, 0.2, 0.8, 0.8, 0.8], TreeOptions(max_leaves=2, cross_fitted=cross_fitted))
    assert sides(rising) == sorted(sides(rising))
    falling = grown([0.8, 0.8, 0.8, 0.2, 0.2, 0.2], TreeOptions(max_leaves=2, cross_fitted=cross_fitted))
    assert sides(falling) == sorted(sides(falling))
