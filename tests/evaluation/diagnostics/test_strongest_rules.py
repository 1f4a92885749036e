"""The strongest rules are those of all rules that move the most."""

import numpy as np
import pytest

from builders import random_model, table_model
from mbct.evaluation.diagnostics.strongest_rules import strongest_rules


@pytest.mark.parametrize("link", ["odds", "linear"])
@pytest.mark.parametrize("build", [random_model, table_model])
def test_the_strongest_of_all_rules_with_all_that_they_hold(build, link):
    model = build(3, link)
    every = sorted(model.rules(), key=lambda rule: -rule.effect)
    found = strongest_rules(model, len(every))
    assert found.total == model.n_rules >= len(every)
    assert [rule.effect for rule in found.rules] == pytest.approx([rule.effect for rule in every], rel=1e-9)
    assert {(rule.tree, rule.node): rule for rule in found.rules} == {(rule.tree, rule.node): rule for rule in every}
    assert strongest_rules(model, 3).rules == found.rules[:3]
    if found.total == len(every):  # no node of a random tree is beyond reach
        of_tree = np.bincount([rule.tree for rule in every], [rule.effect for rule in every], len(model.trees))
        assert found.effect_of_tree == pytest.approx(of_tree)
