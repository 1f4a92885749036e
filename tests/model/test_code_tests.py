"""Trees as nested tests: the same steps as the frozen tree, in polars expressions and in SQL."""

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import random_model, random_rows
from mbct.data import score
from mbct.data.columns import read_columns
from mbct.data.entry import calibrated
from mbct.model.conditions import CodeDecision, CodeTest, code_tests
from mbct.model.ensemble import Link


def _decide(decision: CodeDecision, codes: np.ndarray) -> float:
    while isinstance(decision, CodeTest):
        code = int(codes[decision.feature])
        inside = any(first <= code <= last for first, last in decision.runs)
        decision = decision.inside if inside else decision.outside
    return decision


@given(st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_a_decision_is_the_step_of_the_tree(seed: int) -> None:
    model = random_model(seed)
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, n, 50) for n in model.bins.n_codes]).astype(np.uint8)
    for tree in model.trees:
        decision = code_tests(tree, model.bins.n_codes)
        expected = tree.leaf_value[tree.apply(codes)]
        assert [_decide(decision, row) for row in codes] == expected.tolist()


def test_a_child_appears_once_however_its_codes_are_scattered() -> None:
    for seed in range(30):
        model = random_model(seed)
        for tree in model.trees:
            leaves: list[float] = []

            def gather(decision: CodeDecision, into: list[float] = leaves) -> None:
                if isinstance(decision, CodeTest):
                    gather(decision.inside, into)
                    gather(decision.outside, into)
                else:
                    into.append(decision)

            gather(code_tests(tree, model.bins.n_codes))
            at_leaves = set(tree.leaf_value[tree.leaves].tolist())
            for step in at_leaves - set(tree.leaf_value[tree.feature >= 0].tolist()):
                assert leaves.count(step) <= 1


@pytest.mark.parametrize("link", ["odds", "linear"])
@pytest.mark.parametrize("seed", range(4))
def test_scores_of_random_models_agree(seed: int, link: Link) -> None:
    model = random_model(seed, link, n_trees=12, n_features=6)
    rows = pl.DataFrame(random_rows(seed, model, 400), strict=False)
    expected = calibrated(read_columns(rows), model)
    found = score(rows.lazy(), model).collect()["calibrated"].to_numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    relation = duckdb.connect().from_arrow(rows.to_arrow())
    table = pl.from_arrow(score(relation, model).to_arrow_table())
    np.testing.assert_allclose(table["calibrated"].to_numpy(), expected, rtol=0, atol=1e-12)
