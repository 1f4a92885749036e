"""Look-ups find the stop that walking finds, bit for bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import binary_tree, random_bins, table_model, table_tree
from mbct.model.bins import FeatureBins, NumberBins
from mbct.model.ensemble import LeafMasks, WalkedTrees
from mbct.model.tables import TableStack, stack_tables, table_of


def random_codes(bins, seed, n_rows=400):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, n, n_rows) for n in bins.n_codes]).astype(bins.code_type)


def looked_up(table, codes):
    """The place in the array as the class describes it."""
    place = 0
    for d, (feature, classes, n) in enumerate(zip(table.features, table.classes, table.n_classes, strict=True)):
        if d == 2 and table.pairs is not None:
            place = table.pairs[place]
        place = place * n + classes[codes[feature]]
    return table.terminal_nodes[place]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), n_features=st.integers(1, 5), link=st.sampled_from(["odds", "linear"]))
def test_a_table_stops_where_walking_stops(seed, n_features, link):
    rng = np.random.default_rng(seed)
    bins = random_bins(rng, 5)
    trees = [table_tree(rng, bins, tuple(map(int, rng.permutation(6)[:n_features])), link) for _ in range(3)]
    tables = [table_of(tree, bins.n_codes) for tree in trees]
    codes = random_codes(bins, seed)
    for tree, table in zip(trees, tables, strict=True):
        assert [looked_up(table, row) for row in codes] == tree.apply(codes).tolist()
    total = np.full(len(codes), 1.0 if link == "linear" else 0.0)
    expected = total.copy()
    stack_tables(trees, tables, product=link == "linear").add_to(total, codes)
    WalkedTrees(tuple(trees), link == "linear").add_to(expected, codes)
    np.testing.assert_array_equal(total, expected)


@pytest.mark.parametrize("link", ["odds", "linear"])
def test_models_of_tables_and_of_binary_trees_between_them(link):
    model = table_model(3, link, 3, n_binary=4)
    model = model.with_trees((*model.trees[:2], *model.trees[3:], model.trees[2]))
    assert [type(part) for part in model.compiled] == [TableStack, LeafMasks, TableStack]
    codes = random_codes(model.bins, 1, 3000)
    np.testing.assert_array_equal(model.tree_total(codes), model.walked_total(codes))


def test_other_trees_are_no_tables():
    rng = np.random.default_rng(1)
    bins = FeatureBins(tuple(NumberBins(f"x{j}", (0.0, 1.0)) for j in range(12)))
    assert table_of(table_tree(rng, bins, (1,)), bins.n_codes).features == (1,)
    assert table_of(table_tree(rng, bins, ()), bins.n_codes) is None
    assert any(table_of(binary_tree(rng, bins, "odds", 200), bins.n_codes) is None for _ in range(3)), "12 features"
    fine = FeatureBins(tuple(NumberBins(f"x{j}", tuple(np.arange(200.0))) for j in range(5)))
    assert table_of(binary_tree(rng, fine, "odds", 400), fine.n_codes) is None, "too many combinations"


def test_binary_trees_over_few_features_are_tables_too():
    model = table_model(3, n_tables=0)
    rng = np.random.default_rng(3)
    few = FeatureBins((*model.bins.features[:2], model.bins[3]))
    codes = random_codes(few, 1, 3000)
    for tree in (binary_tree(rng, few, "odds", 100) for _ in range(3)):
        table = table_of(tree, few.n_codes)
        assert table is not None
        assert [looked_up(table, row) for row in codes] == tree.apply(codes).tolist()


def test_pairs_that_end_alike_are_stored_once():
    rng = np.random.default_rng(5)
    model = table_model(5, n_tables=0)
    tree = table_tree(rng, model.bins, (3, 4, 1), n_groups=60)
    table = table_of(tree, model.bins.n_codes)
    assert table.pairs is not None
    assert len(table.terminal_nodes) + len(table.pairs) < np.prod(table.n_classes) / 2
    codes = random_codes(model.bins, 2, 3000)
    assert [looked_up(table, row) for row in codes] == tree.apply(codes).tolist()
