"""Nested decisions as binary trees: cuts x ≤ edge of raw numbers, and sets of codes."""

from collections.abc import Iterator
from dataclasses import dataclass

from mbct.model.bins import NumberBins
from mbct.model.conditions import Case, CodeBranch, Decision, Leaf
from mbct.model.ensemble import CalibrationEnsemble


@dataclass(frozen=True, eq=False)
class BinaryLeaf:
    """Where a row stops, and the step it takes there."""

    step: float


@dataclass(frozen=True, eq=False)
class NumberCut:
    """x ≤ edge goes left, a missing value as told."""

    feature: int
    edge: float
    missing_left: bool
    left: "BinaryNode | BinaryLeaf"
    right: "BinaryNode | BinaryLeaf"


@dataclass(frozen=True, eq=False)
class CodeCut:
    """Some codes go left, all others right."""

    feature: int
    codes: frozenset[int]
    left: "BinaryNode | BinaryLeaf"
    right: "BinaryNode | BinaryLeaf"


BinaryNode = NumberCut | CodeCut


@dataclass(frozen=True)
class _Run:
    """Neighbouring intervals of a number, up to an edge, that lead to one decision."""

    edge: float
    case: Case


def binary_tree(model: CalibrationEnsemble, decision: Decision, coded: frozenset[int]) -> BinaryNode | BinaryLeaf:
    """The decision as a binary tree in which the ``coded`` features are cut by codes, the others by edges."""
    if isinstance(decision, Leaf):
        return BinaryLeaf(decision.step)
    bins = model.bins[decision.feature]
    if isinstance(bins, NumberBins) and decision.feature not in coded:
        missing = next((case for case in _cases(decision) if bins.missing in case.codes), None)
        return _cut_runs(model, decision.feature, list(_runs(bins, decision)), missing, coded)
    return _cut_codes(model, decision.feature, _cases(decision), coded)


def scattered_features(model: CalibrationEnsemble, decision: Decision) -> set[int]:
    """Numbers of which some inner branch takes several separate intervals."""
    if isinstance(decision, Leaf):
        return set()
    found = set().union(*(scattered_features(model, case.below) for case in _cases(decision)))
    bins = model.bins[decision.feature]
    if isinstance(bins, NumberBins):
        inner = [run.case for run in _runs(bins, decision) if isinstance(run.case.below, CodeBranch)]
        if len(inner) > len({id(case) for case in inner}):
            found.add(decision.feature)
    return found


def _cases(branch: CodeBranch) -> tuple[Case, ...]:
    """All cases; the default comes last, so that no set of codes ever has to name it."""
    return (*branch.cases, branch.default)


def _runs(bins: NumberBins, branch: CodeBranch) -> Iterator[_Run]:
    case_of = {code: case for case in _cases(branch) for code in case.codes if code < bins.n_values}
    codes = sorted(case_of)
    edges = (*bins.edges, float("inf"))
    for position, code in enumerate(codes):
        following = codes[position + 1] if position + 1 < len(codes) else None
        if following is None or case_of[following] is not case_of[code]:
            yield _Run(edges[code], case_of[code])


def _cut_runs(
    model: CalibrationEnsemble, feature: int, runs: list[_Run], missing: Case | None, coded: frozenset[int]
) -> BinaryNode | BinaryLeaf:
    """Bisect runs; a missing value follows its own case, or parts from the last number it is left with."""
    if len(runs) > 1:
        middle = len(runs) // 2
        left, right = runs[:middle], runs[middle:]
        goes_left = any(run.case is missing for run in left)
        return NumberCut(
            feature,
            left[-1].edge,
            goes_left,
            _cut_runs(model, feature, left, missing if goes_left else None, coded),
            _cut_runs(model, feature, right, None if goes_left else missing, coded),
        )
    below = binary_tree(model, runs[0].case.below, coded)
    if missing is None or missing is runs[0].case:
        return below
    return NumberCut(feature, float("inf"), False, below, binary_tree(model, missing.below, coded))


def _cut_codes(
    model: CalibrationEnsemble, feature: int, cases: tuple[Case, ...], coded: frozenset[int]
) -> BinaryNode | BinaryLeaf:
    if len(cases) == 1:
        return binary_tree(model, cases[0].below, coded)
    middle = len(cases) // 2
    return CodeCut(
        feature,
        frozenset[int]().union(*(case.codes for case in cases[:middle])),
        _cut_codes(model, feature, cases[:middle], coded),
        _cut_codes(model, feature, cases[middle:], coded),
    )
