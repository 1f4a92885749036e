import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import random_model, random_rows
from mbct.data.columns import encode, read_columns
from mbct.export.lightgbm import BinaryLeaf, BinaryNode, CodeCut, binary_tree, coded_features
from mbct.model.bins import NumberBins
from mbct.model.conditions import CodeBranch, Decision, decisions, intervals, possible_codes, run_nodes, used_features
from mbct.model.ensemble import CalibrationEnsemble

seeds = st.integers(0, 2**32 - 1)


def code_rows(seed: int, model: CalibrationEnsemble) -> np.ndarray:
    """Rows of possible codes, drawn evenly, so that rare ones are met as well."""
    rng = np.random.default_rng(seed)
    columns = [rng.choice(sorted(possible_codes(model, j)), 80) for j in range(len(model.bins))]
    return np.column_stack(columns)


def walk(decision: Decision, codes: np.ndarray) -> float:
    while isinstance(decision, CodeBranch):
        code = codes[decision.feature]
        decision = next((c.below for c in decision.cases if code in c.codes), decision.default.below)
    return decision.leaf_value


def walk_binary(node: BinaryNode | BinaryLeaf, model: CalibrationEnsemble, codes: np.ndarray) -> float:
    while not isinstance(node, BinaryLeaf):
        code, bins = codes[node.feature], model.bins[node.feature]
        if isinstance(node, CodeCut):
            left = code in node.codes
        elif code == bins.missing:
            left = node.missing_left
        else:
            left = (*bins.edges, np.inf)[code] <= node.edge
        node = node.left if left else node.right
    return node.leaf_value


@given(seeds)
@settings(deadline=None, max_examples=60)
def test_decisions_runs_and_binary_trees_end_where_the_tree_ends(seed: int) -> None:
    model = random_model(seed, n_features=7)
    rows = code_rows(seed, model)
    coded = coded_features(model)
    for tree, decision in zip(model.trees, decisions(model), strict=True):
        nodes = run_nodes(model, tree)
        binary = binary_tree(model, decision, coded)
        for codes, stopped in zip(rows, tree.apply(rows), strict=True):
            expected = tree.leaf_value[stopped]
            assert walk(decision, codes) == expected
            assert walk_binary(binary, model, codes) == expected
            node = 0
            while nodes[node].feature >= 0 and (child := nodes[node].child(codes[nodes[node].feature])) >= 0:
                node = child
            assert node == stopped


@given(seeds)
@settings(deadline=None, max_examples=60)
def test_cases_part_the_codes_and_defaults_hold_what_needs_no_test(seed: int) -> None:
    model = random_model(seed, n_features=7)
    pending = list(decisions(model))
    while pending:
        branch = pending.pop()
        if not isinstance(branch, CodeBranch):
            continue
        cases = (*branch.cases, branch.default)
        pending += [case.below for case in cases]
        everything = [code for case in cases for code in case.codes]
        assert len(everything) == len(set(everything))
        assert set(everything) <= possible_codes(model, branch.feature)
        bins = model.bins[branch.feature]
        if isinstance(bins, NumberBins):
            known = [code for code in everything if code < bins.n_values]
            assert max(known) in branch.default.codes
        elif bins.unseen in everything:
            assert bins.unseen in branch.default.codes


@given(seeds)
@settings(deadline=None, max_examples=60)
def test_intervals_hold_exactly_the_codes_of_their_case(seed: int) -> None:
    model = random_model(seed, n_features=1)
    pending = list(decisions(model))
    while pending:
        branch = pending.pop()
        if not isinstance(branch, CodeBranch):
            continue
        pending += [case.below for case in (*branch.cases, branch.default)]
        bins = model.bins[branch.feature]
        left = {code for case in (*branch.cases, branch.default) for code in case.codes if code < bins.n_values}
        for position, case in enumerate(branch.cases):
            tops = (*bins.edges, np.inf)
            found = intervals(bins, branch, position)
            inside = {code for code in left if any(one.low < tops[code] <= one.high for one in found)}
            assert inside == {code for code in case.codes if code < bins.n_values}
            left -= inside


def test_features_that_no_tree_looks_at_are_not_used() -> None:
    model = random_model(3, n_features=7)
    assert used_features(model.with_trees(())) == [0]
    rows = random_rows(3, model, 50)
    arrays = {name: np.array(values, dtype=object) for name, values in rows.items()}
    codes = encode(read_columns(arrays), model.bins, np.array(rows["score"]))
    before = model.tree_total(codes)
    unused = sorted(set(range(len(model.bins))) - set(used_features(model)))
    codes[:, unused] = 0
    assert model.tree_total(codes).tolist() == before.tolist()
