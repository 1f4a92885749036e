"""An explanation ends where the scorer ends, by rules that the row fulfils."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import random_model, random_rows
from mbct.errors import DataError
from mbct.model.rules import rules
from mbct.serving.explanation import explain
from mbct.serving.row import RowScorer


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), link=st.sampled_from(["odds", "linear"]), n_trees=st.integers(0, 5))
def test_the_path_leads_to_the_calibrated_value(seed, link, n_trees):
    model = random_model(seed, link, n_trees)
    columns = random_rows(seed, model, 20)
    scorer = RowScorer(model)
    known = set(map(str, rules(model)))
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        found = explain(model, row)
        assert found.calibrated == pytest.approx(scorer.score_row(row), abs=1e-12)
        assert [path.tree for path in found.trees] == list(range(n_trees))
        for path in found.trees:
            assert str(path.rule) in known
            assert {b.feature for b in path.branches} == {c.feature for c in path.rule.conditions}


def test_it_reads_well_and_names_what_is_absent():
    model = random_model(1, n_trees=2)
    row = {name: 0.25 if name == "score" else None for name in model.bins.names}
    assert str(explain(model, row)).startswith("prediction 0.25\ntree 1: ")
    with pytest.raises(DataError, match="no 'score'"):
        explain(model, {})
