"""Masks find the stop that walking finds, bit for bit, for trees of any width."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import random_bins, random_model, random_tree
from mbct.model.ensemble import CalibrationEnsemble, masks_of_trees, sum_trees


def masks_of_model(model):
    return masks_of_trees(model.trees, model.bins.n_codes, product=model.link == "linear")


def masked_total(model, codes):
    total = np.full(len(codes), 1.0 if model.link == "linear" else 0.0)
    masks_of_model(model).add_to(total, codes)
    return total


def random_codes(model, seed, n_rows=400):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, n, n_rows) for n in model.bins.n_codes]).astype(model.bins.code_type)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), link=st.sampled_from(["odds", "linear"]), n_trees=st.integers(1, 8))
def test_masks_equal_walking_exactly(seed, link, n_trees):
    model = random_model(seed, link, n_trees)
    codes = random_codes(model, seed)
    np.testing.assert_array_equal(masked_total(model, codes), model.walked_total(codes))


@pytest.mark.parametrize("max_nodes", [3, 20, 60, 100, 400])
def test_wide_trees_take_several_words(max_nodes):
    rng = np.random.default_rng(max_nodes)
    bins = random_bins(rng, 6)
    trees = tuple(random_tree(rng, bins, "odds", max_nodes) for _ in range(4))
    model = CalibrationEnsemble("score", "odds", bins, trees)
    codes = random_codes(model, 1, 2000)
    np.testing.assert_array_equal(masked_total(model, codes), model.walked_total(codes))
    if max_nodes == 400:
        assert masks_of_model(model).words.shape[1] > len(trees)


def test_threads_that_share_the_rows_change_no_bit():
    model = random_model(3, "odds", 8)
    codes = random_codes(model, 1, 50_000)
    np.testing.assert_array_equal(sum_trees(model.trees, codes, model.bins.n_codes), model.walked_total(codes))


def test_trees_of_very_many_leaves_are_walked_and_no_masks_are_built_for_them(monkeypatch):
    rng = np.random.default_rng(5)
    bins = random_bins(rng, 6)
    model = CalibrationEnsemble("score", "odds", bins, (random_tree(rng, bins, "odds", 3000),))
    assert len(model.trees[0].leaves) > 4 * 64
    monkeypatch.setattr("mbct.model.ensemble.masks_of_trees", lambda *_, **__: pytest.fail("built in vain"))
    codes = random_codes(model, 2, 3000)
    np.testing.assert_array_equal(model.tree_total(codes), model.walked_total(codes))
