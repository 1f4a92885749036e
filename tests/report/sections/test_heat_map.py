"""A heat map shows the factor that the model has for each pair of values."""

import math

import numpy as np
import pytest

from builders import table_model, table_tree
from mbct.report.sections.heat_map import compute, render


@pytest.mark.parametrize("link", ["odds", "linear"])
def test_factors_are_those_of_the_tree(link):
    model = table_model(4, link, 0)
    tree = table_tree(np.random.default_rng(4), model.bins, (1, 5), link, 24)
    model = model.with_trees((table_tree(np.random.default_rng(5), model.bins, (1, 2, 5), link), tree))
    (found,) = compute(model, np.ones(len(model.trees)))
    assert (found.tree, found.features) == (1, ("hour", "flag"))
    line, column = found.lines.index("true"), found.columns.index("6")
    codes = np.zeros((1, len(model.bins)), np.uint16)
    codes[0, 1] = 6
    step = float(tree.leaf_value[tree.apply(codes)[0]])
    assert found.factors[line][column] == pytest.approx(step if link == "linear" else math.exp(step))
    assert "Blue raises, orange lowers." in render([found], "odds")


def test_large_tables_are_cut_to_their_most_frequent_values():
    model = table_model(4, n_tables=0)
    model = model.with_trees((table_tree(np.random.default_rng(4), model.bins, (3, 4), n_groups=60),))
    (found,) = compute(model, np.ones(len(model.trees)))
    assert (len(found.columns), len(found.lines)) == (40, 40)
    assert found.left_out > 0
    assert "rarer groups of values are not drawn" in render([found], "odds")
