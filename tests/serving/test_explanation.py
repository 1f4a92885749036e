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
    known = set(map(str, rules(model, fallbacks=True)))
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        found = explain(model, row)
        assert found.calibrated == pytest.approx(scorer.score_row(row), abs=1e-12)
        assert [path.tree for path in found.trees] == list(range(n_trees))
        for path in found.trees:
            assert str(path.rule) in known


def test_it_reads_well_and_names_what_is_absent():
    model = random_model(1, n_trees=2)
    row = {name: 0.25 if name == "score" else None for name in model.bins.names}
    explained = explain(model, row)
    first, *trees, product, last = str(explained).splitlines()
    assert first == "prediction 0.25"
    assert [line.split(" → ")[0] for line in trees] == [f"× {path.rule.multiplier:.4g}" for path in explained.trees]
    assert product == f"× {explained.multiplier:.4g} on the odds in all"
    assert last == f"calibrated {explained.calibrated:.6g}"
    odds = 0.25 / 0.75 * explained.multiplier
    assert odds / (1 + odds) == pytest.approx(explained.calibrated)
    with pytest.raises(DataError, match="no 'score'"):
        explain(model, {})
