"""Rules speak in the data's words, and as many are listed as are counted."""

import math
from dataclasses import replace

import numpy as np
import pytest

from builders import random_model, table_model
from mbct.model.bins import CategoryBins, NumberBins
from mbct.model.rules import condition, rules
from mbct.model.tree import terminal_sums

BONUS = NumberBins("bonus", (4.0,), (0.0, 7.0))
CARRIER = CategoryBins("carrier", ("UA", "AA", "DL", "B6", "WN"))
PRICE = NumberBins("price", (2.5, 4.5, 9.0))


@pytest.mark.parametrize(
    ("feature", "codes", "words"),
    [
        (BONUS, [0, 1, 2], "bonus anything"),
        (BONUS, [0, 1], "bonus known"),
        (BONUS, [1, 2], "bonus 7 or missing"),
        (NumberBins("t", (-1.5, -0.5, 0.5, 1.5), (-2.0, -1.0, 0.0, 1.0, 2.0)), [1, 2, 3], "t -1 to 1"),
        (PRICE, [0, 2], "price ≤ 2.5 or 4.5 to 9"),
        (PRICE, [3, 4], "price > 9 or missing"),
        (CARRIER, [0, 2], "carrier UA or DL"),
        (CARRIER, [0, 5, 6], "carrier UA, missing or unseen"),
        (CARRIER, [1, 2, 3, 4, 5, 6], "carrier other than UA"),
        (CARRIER, [1, 2, 3, 4, 6], "carrier other than UA or missing"),
        (CategoryBins("plan", ("gold ", "gold")), [0, 1], "plan 'gold ' or gold"),
    ],
)
def test_conditions_in_words(feature, codes, words):
    assert str(condition(feature, frozenset(codes))) == words


@pytest.mark.parametrize("link", ["odds", "linear"])
def test_a_rule_says_factor_direction_rows_and_what_it_does(link):
    model = table_model(1, link, 2)
    for rule in rules(model):
        factor, direction, rest = str(rule).split(", ", 2)
        assert factor == f"× {rule.multiplier:.4g}"
        assert direction == f"predicted {'too low' if rule.multiplier > 1 else 'too high'}"
        assert (rule.after > rule.mean_prediction) == (rule.multiplier > 1)
        assert " → " in rest
        assert len(rule.shortened(70)) <= 70


def test_every_row_of_training_is_in_one_rule_of_a_tree_and_no_rule_is_empty():
    model = table_model(2, n_tables=4)
    found = list(model.rules())
    assert len(found) == model.n_rules
    assert min(rule.rows for rule in found) > 0
    for number, tree in enumerate(model.trees):
        assert sum(rule.rows for rule in found if rule.tree == number) == tree.count[0]


def test_rows_that_fall_back_to_their_parent_are_counted():
    model = table_model(2, n_tables=1)
    (tree,) = model.trees
    count = tree.count.copy()
    count[0] += 50.0
    model = model.with_trees((replace(tree, count=count),))
    assert terminal_sums(model.trees[0])["count"][0] == 50.0
    (fallback,) = [rule for rule in model.rules() if rule.fallback]
    assert fallback.rows == 50.0
    assert math.isclose(sum(rule.rows for rule in model.rules()), count[0])


def test_all_rules_include_those_of_no_row():
    model = random_model(3)
    every = list(rules(model, fallbacks=True))
    assert {(rule.tree, rule.node) for rule in model.rules()} < {(rule.tree, rule.node) for rule in every}
    assert np.isfinite([rule.bound for rule in every]).all()
