"""A tree as nested decisions without what no row can reach: what SQL, LightGBM text and PMML are made of."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from mbct.model.bins import Bins, NumberBins
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.tree import STOP, CalibrationTree


@dataclass(frozen=True)
class Leaf:
    """Where a row stops, and the step it takes there."""

    step: float


@dataclass(frozen=True)
class Case:
    """Codes of the branch's feature that lead to the same decision."""

    codes: frozenset[int]
    below: "Decision"


@dataclass(frozen=True)
class Branch:
    """Cases that exclude each other, in the order of their smallest code, and the default for every other row.

    The default of a number holds its topmost interval, so every other case is bounded above and no case needs
    a test that NaN passes in some engines. The default of a category holds the unseen code, so that every
    other case is a list of known values.
    """

    feature: int
    cases: tuple[Case, ...]
    default: Case


Decision = Leaf | Branch


@dataclass(frozen=True)
class Interval:
    """low < x ≤ high; an infinite ``low`` means that what lies below needs no test."""

    low: float
    high: float


def decisions(model: CalibrationEnsemble) -> Iterator[Decision]:
    """Each tree as nested decisions."""
    for tree in model.trees:
        yield _decision(model, tree, 0, {})


def possible_codes(model: CalibrationEnsemble, feature: int) -> frozenset[int]:
    """Codes that a row can have: no number is unseen, and a prediction is never missing."""
    bins = model.bins[feature]
    n_codes = bins.n_codes
    if isinstance(bins, NumberBins):
        n_codes = bins.n_values if feature == 0 else bins.n_values + 1
    return frozenset(range(n_codes))


def outcomes(
    model: CalibrationEnsemble, tree: CalibrationTree, node: int, allowed: frozenset[int]
) -> dict[int, frozenset[int]]:
    """Children of an inner node, and STOP, each with those of the ``allowed`` codes that lead there."""
    found = tree.children(node, model.bins[int(tree.feature[node])].n_codes)
    reached = {child: allowed & frozenset(codes) for child, codes in found.items()}
    stopped = allowed.difference(*reached.values())
    return {child: codes for child, codes in {STOP: stopped, **reached}.items() if codes}


def _decision(
    model: CalibrationEnsemble, tree: CalibrationTree, node: int, path: dict[int, frozenset[int]]
) -> Decision:
    feature = int(tree.feature[node])
    own = Leaf(float(tree.step[node]))
    if feature < 0:
        return own
    allowed = path.get(feature) or possible_codes(model, feature)
    found: dict[Decision, frozenset[int]] = {}
    for child, codes in outcomes(model, tree, node, allowed).items():
        below = own if child == STOP else _decision(model, tree, child, {**path, feature: codes})
        found[below] = found.get(below, frozenset()) | codes
    cases = sorted((Case(codes, below) for below, codes in found.items()), key=lambda case: min(case.codes))
    if len(cases) == 1:
        return cases[0].below
    default = _default(model.bins[feature], cases)
    return Branch(feature, tuple(case for case in cases if case is not default), default)


def _default(bins: Bins, cases: list[Case]) -> Case:
    if isinstance(bins, NumberBins):
        return max(cases, key=lambda case: max((code for code in case.codes if code < bins.n_values), default=-1))
    return max(cases, key=lambda case: (bins.unseen in case.codes, len(case.codes)))


def intervals(bins: NumberBins, branch: Branch, position: int) -> list[Interval]:
    """Intervals of a number that make up a case, given that the cases before it were tested in vain.

    Codes that cannot arrive here belong to whichever interval is convenient.
    """
    here = branch.cases[position].codes
    others: set[int] = set(branch.default.codes).union(*(case.codes for case in branch.cases[position + 1 :]))
    found: list[Interval] = []
    low = -math.inf
    high = None
    for code in range(bins.n_values - 1):
        if code in here:
            high = bins.edges[code]
        elif code in others:
            if high is not None:
                found.append(Interval(low, high))
            low, high = bins.edges[code], None
    if high is not None:
        found.append(Interval(low, high))
    return found


def used_features(model: CalibrationEnsemble) -> list[int]:
    """The prediction and every feature that some tree looks at, in the model's order."""
    used = {0}.union(*(set(tree.feature[tree.feature >= 0].tolist()) for tree in model.trees))
    return sorted(used)
