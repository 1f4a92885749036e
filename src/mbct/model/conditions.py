"""A tree as conditions, in the three shapes that other runtimes are written from.

- :func:`decisions`: nested branches on sets of codes, without what no row can reach (SQL, LightGBM text, PMML);
- :func:`run_nodes`: nodes that map runs of codes to children (Python, C, ONNX);
- :func:`code_tests`: nested tests of one code column against runs of codes (expressions of engines).
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from mbct.model.bins import Feature, NumberBins
from mbct.model.tree import STOP, CalibrationTree, IntArray

if TYPE_CHECKING:
    from mbct.model.ensemble import CalibrationEnsemble

Run = tuple[int, int]
"""First and last of consecutive codes."""


@dataclass(frozen=True)
class Leaf:
    """A terminal node and its leaf value."""

    leaf_value: float


@dataclass(frozen=True)
class Case:
    """Codes of the branch's feature that lead to the same decision."""

    codes: frozenset[int]
    below: "Decision"


@dataclass(frozen=True)
class CodeBranch:
    """Cases that exclude each other, in the order of their smallest code, and the default for every other row.

    The default of a number holds its topmost interval, so every other case is bounded above and no case needs
    a test that NaN passes in some engines. The default of a category holds the unseen code, so that every
    other case is a list of known values.
    """

    feature: int
    cases: tuple[Case, ...]
    default: Case


Decision = Leaf | CodeBranch


@dataclass(frozen=True)
class NumberRange:
    """low < x ≤ high; an infinite ``low`` means that what lies below needs no test."""

    low: float
    high: float


def decisions(model: "CalibrationEnsemble") -> Iterator[Decision]:
    """Each tree as nested decisions."""
    for tree in model.trees:
        yield decision_of(model, tree)


def possible_codes(model: "CalibrationEnsemble", feature: int) -> frozenset[int]:
    """Codes that a row can have: no number is unseen, and a prediction is never missing."""
    bins = model.bins[feature]
    n_codes = bins.n_codes
    if isinstance(bins, NumberBins):
        n_codes = bins.n_values if feature == 0 else bins.n_values + 1
    return frozenset(range(n_codes))


def outcomes(
    model: "CalibrationEnsemble", tree: CalibrationTree, node: int, allowed: frozenset[int]
) -> dict[int, frozenset[int]]:
    """Children of an inner node, and STOP, each with those of the ``allowed`` codes that lead there."""
    found = tree.children(node, model.bins[int(tree.feature[node])].n_codes)
    reached = {child: allowed & frozenset(codes) for child, codes in found.items()}
    stopped = allowed.difference(*reached.values())
    return {child: codes for child, codes in {STOP: stopped, **reached}.items() if codes}


def decision_of(
    model: "CalibrationEnsemble",
    tree: CalibrationTree,
    node: int = 0,
    path: Mapping[int, frozenset[int]] = MappingProxyType({}),
) -> Decision:
    """A tree, or what lies below a node whose ``path`` leaves so many codes of each feature, as nested decisions."""
    feature = int(tree.feature[node])
    own = Leaf(float(tree.leaf_value[node]))
    if feature < 0:
        return own
    allowed = path.get(feature) or possible_codes(model, feature)
    found: dict[Decision, frozenset[int]] = {}
    for child, codes in outcomes(model, tree, node, allowed).items():
        below = own if child == STOP else decision_of(model, tree, child, {**path, feature: codes})
        found[below] = found.get(below, frozenset()) | codes
    cases = sorted((Case(codes, below) for below, codes in found.items()), key=lambda case: min(case.codes))
    if len(cases) == 1:
        return cases[0].below
    default = _default(model.bins[feature], cases)
    return CodeBranch(feature, tuple(case for case in cases if case is not default), default)


def _default(bins: Feature, cases: list[Case]) -> Case:
    if isinstance(bins, NumberBins):
        return max(cases, key=lambda case: max((code for code in case.codes if code < bins.n_values), default=-1))
    return max(cases, key=lambda case: (bins.unseen in case.codes, len(case.codes)))


def intervals(bins: NumberBins, branch: CodeBranch, position: int) -> list[NumberRange]:
    """Intervals of a number that make up a case, given that the cases before it were tested in vain.

    Codes that cannot arrive here belong to whichever interval is convenient.
    """
    here = branch.cases[position].codes
    others: set[int] = set(branch.default.codes).union(*(case.codes for case in branch.cases[position + 1 :]))
    found: list[NumberRange] = []
    low = -math.inf
    high = None
    for code in range(bins.n_values - 1):
        if code in here:
            high = bins.edges[code]
        elif code in others:
            if high is not None:
                found.append(NumberRange(low, high))
            low, high = bins.edges[code], None
    if high is not None:
        found.append(NumberRange(low, high))
    return found


def used_features(model: "CalibrationEnsemble") -> list[int]:
    """The prediction and every feature that some tree looks at, in the model's order."""
    used = {0}.union(*(set(tree.feature[tree.feature >= 0].tolist()) for tree in model.trees))
    return sorted(used)


@dataclass(frozen=True)
class RunNode:
    """A node: its leaf value and, unless it is a leaf (feature −1), the first code of each run and the run's child."""

    leaf_value: float
    feature: int = -1
    starts: tuple[int, ...] = ()
    children: tuple[int, ...] = ()

    def child(self, code: int) -> int:
        """Where a code leads, STOP included."""
        return self.children[bisect_right(self.starts, code) - 1]


def run_nodes(model: "CalibrationEnsemble", tree: CalibrationTree) -> list[RunNode]:
    """The nodes of a tree, numbered as in it.

    Codes that cannot arrive at a node join the run before them, so that a category of thousands of values leaves
    short lists deep in a tree.
    """
    arriving: list[set[int]] = [set() for _ in range(tree.n_nodes)]
    pending: list[tuple[int, dict[int, frozenset[int]]]] = [(0, {})]
    while pending:
        node, path = pending.pop()
        feature = int(tree.feature[node])
        if feature >= 0:
            allowed = path.get(feature) or possible_codes(model, feature)
            arriving[node] |= allowed
            for child, codes in outcomes(model, tree, node, allowed).items():
                if child != STOP:
                    pending.append((child, {**path, feature: codes}))
    return [_run_node(model, tree, node, arriving[node]) for node in range(tree.n_nodes)]


def _run_node(model: "CalibrationEnsemble", tree: CalibrationTree, node: int, arriving: set[int]) -> RunNode:
    feature, leaf_value = int(tree.feature[node]), float(tree.leaf_value[node])
    if feature < 0:
        return RunNode(leaf_value)
    first = int(tree.table_start[node])
    table = tree.table[first : first + model.bins[feature].n_codes].tolist()
    starts: list[int] = []
    children: list[int] = []
    for code in sorted(arriving):
        if not children or table[code] != children[-1]:
            starts.append(code if starts else 0)
            children.append(table[code])
    return RunNode(leaf_value, feature, tuple(starts), tuple(children)) if children else RunNode(leaf_value)


@dataclass(frozen=True)
class CodeTest:
    """Whether the code of ``feature`` lies in one of ``runs``, and what follows if it does and if not."""

    feature: int
    runs: tuple[Run, ...]
    inside: "CodeDecision"
    outside: "CodeDecision"


CodeDecision = float | CodeTest
"""The leaf value of a terminal node, or a test that leads on."""


def code_tests(tree: CalibrationTree, n_codes: tuple[int, ...]) -> CodeDecision:
    """Leaf value of the terminal node, as nested tests on its codes."""

    def at(node: int) -> CodeDecision:
        own = float(tree.leaf_value[node])
        feature = int(tree.feature[node])
        if feature < 0:
            return own
        start = int(tree.table_start[node])
        runs = _runs_of_children(tree.table[start : start + n_codes[feature]])
        # A child with several runs must appear once only, or the text would grow with every level.
        scattered = sorted((c for c, found in runs.items() if len(found) > 1 and c != STOP), key=lambda c: len(runs[c]))
        cover = _cover({child: found for child, found in runs.items() if child not in scattered})
        if not cover:
            cover = [(0, scattered.pop())]  # every other code was tested for before
        decision = _by_interval(feature, cover, own, at)
        for child in scattered:
            decision = CodeTest(feature, tuple(runs[child]), at(child), decision)
        return decision

    return at(0)


def _runs_of_children(table: IntArray) -> dict[int, list[Run]]:
    """Runs of codes that lead to each child.

    >>> _runs_of_children(np.array([1, 1, 2, 1, -1]))
    {1: [(0, 1), (3, 3)], 2: [(2, 2)], -1: [(4, 4)]}
    """
    last = np.flatnonzero(np.r_[table[1:] != table[:-1], True])
    runs: dict[int, list[Run]] = {}
    first = 0
    for code in last.tolist():
        runs.setdefault(int(table[code]), []).append((first, code))
        first = code + 1
    return runs


def _cover(runs: dict[int, list[Run]]) -> list[tuple[int, int]]:
    """(last code, child) of consecutive segments, in rising order; neighbours with one child are joined."""
    ordered = sorted((last, child) for child, found in runs.items() for _, last in found)
    return [segment for i, segment in enumerate(ordered) if i + 1 == len(ordered) or segment[1] != ordered[i + 1][1]]


def _by_interval(
    feature: int, cover: list[tuple[int, int]], own: float, at: Callable[[int], CodeDecision]
) -> CodeDecision:
    """Binary search among segments of codes; where they stop, a row keeps the node's own value."""
    if len(cover) == 1:
        child = cover[0][1]
        return own if child == STOP else at(child)
    middle = (len(cover) - 1) // 2
    lower, upper = cover[: middle + 1], cover[middle + 1 :]
    up_to = ((0, cover[middle][0]),)
    return CodeTest(feature, up_to, _by_interval(feature, lower, own, at), _by_interval(feature, upper, own, at))
