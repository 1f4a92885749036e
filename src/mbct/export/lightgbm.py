"""The model as LightGBM model text: additive trees whose raw score is the sum of all leaf values.

Columns are the model's features in its order, the prediction first. A number is passed as it is (NaN where missing), a
category as its code (``CategoryBins.encode``: missing and unseen have codes of their own). A number of which some
inner branch takes several separate intervals is passed as its code too, because binary cuts could only say that by
repeating the subtree. :func:`lightgbm_matrix` makes the matrix, :func:`from_raw_score` the probability.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count, groupby
from typing import Any

import numpy as np

from mbct.data.columns import as_floats, encode_column, read_columns
from mbct.errors import ParameterError
from mbct.export.spelling import identifiers
from mbct.model.bins import NumberBins
from mbct.model.conditions import Case, CodeBranch, Decision, Leaf, decisions
from mbct.model.ensemble import CalibrationEnsemble
from mbct.validation import FloatArray

_CATEGORY, _DEFAULT_LEFT, _MISSING_IS_NAN = 1, 2, 8
_LOG_OF_ZERO = -1e4
"""exp of it, whatever is added by other trees, is 0; LightGBM's text has no −∞ that every reader takes."""
_WORD = 32


@dataclass(frozen=True, eq=False)
class BinaryLeaf:
    """A terminal node and its leaf value."""

    leaf_value: float


@dataclass(frozen=True, eq=False)
class NumberCut:
    """x ≤ edge goes left, a missing value where ``missing_left``."""

    feature: int
    edge: float
    missing_left: bool
    left: "BinaryTree"
    right: "BinaryTree"


@dataclass(frozen=True, eq=False)
class CodeCut:
    """Some codes go left, all others right."""

    feature: int
    codes: frozenset[int]
    left: "BinaryTree"
    right: "BinaryTree"


BinaryNode = NumberCut | CodeCut
BinaryTree = BinaryNode | BinaryLeaf
Run = tuple[float, Case]
"""Neighbouring intervals of a number, up to an edge, that lead to one decision."""


def binary_tree(model: CalibrationEnsemble, decision: Decision, coded: frozenset[int]) -> BinaryTree:
    """The decision as a binary tree in which the ``coded`` features are cut by codes, the others by edges."""
    if isinstance(decision, Leaf):
        return BinaryLeaf(decision.leaf_value)
    bins = model.bins[decision.feature]
    if isinstance(bins, NumberBins) and decision.feature not in coded:
        missing = next((case for case in _cases(decision) if bins.missing in case.codes), None)
        return _cut_runs(model, decision.feature, _runs(bins, decision), missing, coded)
    return _cut_codes(model, decision.feature, _cases(decision), coded)


def scattered_features(model: CalibrationEnsemble, decision: Decision) -> set[int]:
    """Numbers of which some inner branch takes several separate intervals."""
    if isinstance(decision, Leaf):
        return set()
    found = set().union(*(scattered_features(model, case.below) for case in _cases(decision)))
    bins = model.bins[decision.feature]
    if isinstance(bins, NumberBins):
        inner = [case for _, case in _runs(bins, decision) if isinstance(case.below, CodeBranch)]
        if len(inner) > len({id(case) for case in inner}):
            found.add(decision.feature)
    return found


def _cases(branch: CodeBranch) -> tuple[Case, ...]:
    """All cases; the default comes last, so that no set of codes ever has to name it."""
    return (*branch.cases, branch.default)


def _runs(bins: NumberBins, branch: CodeBranch) -> list[Run]:
    case_of = {code: case for case in _cases(branch) for code in case.codes if code < bins.n_values}
    edges = (*bins.edges, float("inf"))
    last = [max(codes) for _, codes in groupby(sorted(case_of), key=lambda code: id(case_of[code]))]
    return [(edges[code], case_of[code]) for code in last]


def _cut_runs(
    model: CalibrationEnsemble, feature: int, runs: list[Run], missing: Case | None, coded: frozenset[int]
) -> BinaryTree:
    """Bisect runs; a missing value follows its own case, or parts from the last number it is left with."""
    if len(runs) > 1:
        left, right = runs[: len(runs) // 2], runs[len(runs) // 2 :]
        goes_left = any(case is missing for _, case in left)
        below = _cut_runs(model, feature, left, missing if goes_left else None, coded)
        above = _cut_runs(model, feature, right, None if goes_left else missing, coded)
        return NumberCut(feature, left[-1][0], goes_left, below, above)
    case = runs[0][1]
    below = binary_tree(model, case.below, coded)
    if missing is None or missing is case:
        return below
    return NumberCut(feature, float("inf"), False, below, binary_tree(model, missing.below, coded))


def _cut_codes(model: CalibrationEnsemble, feature: int, cases: tuple[Case, ...], coded: frozenset[int]) -> BinaryTree:
    if len(cases) == 1:
        return binary_tree(model, cases[0].below, coded)
    left, right = cases[: len(cases) // 2], cases[len(cases) // 2 :]
    codes = frozenset[int]().union(*(case.codes for case in left))
    return CodeCut(feature, codes, _cut_codes(model, feature, left, coded), _cut_codes(model, feature, right, coded))


def to_lightgbm(model: CalibrationEnsemble) -> str:
    """Text for ``lightgbm.Booster(model_str=…)``; ``predict`` returns the sum of leaf values, or of log multipliers."""
    trees = list(decisions(model))
    coded = coded_features(model)
    blocks = []
    for number, tree in enumerate(trees):
        root = binary_tree(model, tree, coded)
        blocks.append("\n".join([f"Tree={number}", *_tree_lines(root, model.link == "linear"), "", "", ""]))
    names = identifiers(model.bins.names)
    infos = (":".join(map(str, range(b.n_codes))) if j in coded else "[-inf:inf]" for j, b in enumerate(model.bins))
    header = [
        "tree",
        "version=v4",
        "num_class=1",
        "num_tree_per_iteration=1",
        "label_index=0",
        f"max_feature_idx={len(names) - 1}",
        "objective=regression",
        f"feature_names={' '.join(names)}",
        f"feature_infos={' '.join(infos)}",
        *([f"tree_sizes={' '.join(str(len(block.encode())) for block in blocks)}"] if blocks else []),
    ]
    return "\n".join([*header, "", "".join(blocks) + "end of trees", ""])


def coded_features(model: CalibrationEnsemble) -> frozenset[int]:
    """Features that are passed as codes: all categories, and numbers with scattered intervals."""
    categories = {j for j, bins in enumerate(model.bins) if not bins.ordered}
    return frozenset(categories).union(*(scattered_features(model, tree) for tree in decisions(model)))


def lightgbm_matrix(model: CalibrationEnsemble, data: Any) -> FloatArray:
    """The float64 matrix that the exported trees expect, from a frame or a dictionary of columns."""
    columns = read_columns(data)
    columns.require(model.bins.names)
    coded = coded_features(model)
    matrix = np.empty((columns.n_rows, len(model.bins)))
    for j, bins in enumerate(model.bins):
        column = columns.column(bins.name)
        matrix[:, j] = encode_column(column, bins) if j in coded else as_floats(column)
    return matrix


def from_raw_score(model: CalibrationEnsemble, y_prob: FloatArray, raw_score: FloatArray) -> FloatArray:
    """Calibrated probabilities: σ(logit(p) + r) for the link "odds", clip(p·exp(r), 0, 1) for "linear"."""
    if not model.trees:
        return np.array(y_prob, dtype=np.float64)
    return model.apply_total(y_prob, np.exp(raw_score) if model.link == "linear" else raw_score)


def _tree_lines(root: BinaryTree, linear: bool) -> Iterator[str]:
    inner, leaves = _numbered(root)
    yield f"num_leaves={len(leaves)}"
    cuts = [node.codes for node in inner if isinstance(node, CodeCut)]
    yield f"num_cat={len(cuts)}"
    if inner:
        place = {id(node): i for i, node in enumerate(inner)} | {id(leaf): -1 - i for i, leaf in enumerate(leaves)}
        yield _line("split_feature", (node.feature for node in inner))
        yield _line("split_gain", [0] * len(inner))
        # The edge of a cut of a number; of a cut of codes, its place among the tree's sets of codes
        place_of_set = count()
        yield _line("threshold", (next(place_of_set) if isinstance(n, CodeCut) else repr(n.edge) for n in inner))
        yield _line("decision_type", map(_decision_type, inner))
        yield _line("left_child", (place[id(node.left)] for node in inner))
        yield _line("right_child", (place[id(node.right)] for node in inner))
    yield _line(
        "leaf_value",
        (repr(log_multiplier(leaf.leaf_value, "LightGBM") if linear else leaf.leaf_value) for leaf in leaves),
    )
    yield _line("leaf_weight", [0] * len(leaves))
    yield _line("leaf_count", [0] * len(leaves))
    if inner:
        for name in ("internal_value", "internal_weight", "internal_count"):
            yield _line(name, [0] * len(inner))
    if cuts:
        words = [_bit_words(codes) for codes in cuts]
        yield _line("cat_boundaries", np.cumsum([0, *map(len, words)]).tolist())
        yield _line("cat_threshold", (word for group in words for word in group))
    yield "is_linear=0"
    yield "shrinkage=1"


def _line(name: str, values: Iterable[Any]) -> str:
    return f"{name}={' '.join(map(str, values))}"


def _numbered(root: BinaryTree) -> tuple[list[BinaryNode], list[BinaryLeaf]]:
    inner: list[BinaryNode] = []
    leaves: list[BinaryLeaf] = []
    pending = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, BinaryLeaf):
            leaves.append(node)
        else:
            inner.append(node)
            pending += [node.right, node.left]
    return inner, leaves


def _decision_type(node: BinaryNode) -> int:
    if isinstance(node, CodeCut):
        return _CATEGORY
    return _MISSING_IS_NAN | (_DEFAULT_LEFT if node.missing_left else 0)


def _bit_words(codes: frozenset[int]) -> list[int]:
    words = [0] * (max(codes) // _WORD + 1)
    for code in codes:
        words[code // _WORD] |= 1 << code % _WORD
    return words


def log_multiplier(multiplier: float, target: str) -> float:
    """What a target that can only add takes for a multiplier."""
    if multiplier < 0:
        raise ParameterError(f"a multiplier is {multiplier!r}: {target} adds logarithms, so none may be negative")
    return math.log(multiplier) if multiplier else _LOG_OF_ZERO
