"""A tree as nested tests on codes: what every engine's expression, or SQL text, is written from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from mbct.model.tree import STOP, CalibrationTree

Term = TypeVar("Term")
Run = tuple[int, int]
"""First and last of consecutive codes."""


@dataclass(frozen=True)
class CodeTest:
    """Whether the code of ``feature`` lies in one of ``runs``, and what follows if it does and if not."""

    feature: int
    runs: tuple[Run, ...]
    inside: "Decision"
    outside: "Decision"


Decision = float | CodeTest
"""The step where a row stops, or a test that leads on."""


def tree_decision(tree: CalibrationTree, n_codes: tuple[int, ...]) -> Decision:
    """Step of the node where a row stops."""

    def at(node: int) -> Decision:
        own = float(tree.step[node])
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


def _runs_of_children(table: np.ndarray) -> dict[int, list[Run]]:
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


def _by_interval(feature: int, cover: list[tuple[int, int]], own: float, at: Callable[[int], Decision]) -> Decision:
    """Binary search among segments of codes; where they stop, a row keeps the node's own step."""
    if len(cover) == 1:
        child = cover[0][1]
        return own if child == STOP else at(child)
    middle = (len(cover) - 1) // 2
    lower, upper = cover[: middle + 1], cover[middle + 1 :]
    up_to = ((0, cover[middle][0]),)
    return CodeTest(feature, up_to, _by_interval(feature, lower, own, at), _by_interval(feature, upper, own, at))


def balanced(terms: Sequence[Term], join: Callable[[Term, Term], Term]) -> Term:
    """Terms joined in pairs, so that hundreds of trees do not nest hundreds deep."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return join(balanced(terms[:middle], join), balanced(terms[middle:], join))


def total_sql(terms: Sequence[Decision], column: Callable[[int], str], *, product: bool) -> str:
    """Sum or product of all terms as SQL; ``column`` quotes the code column of a feature.

    >>> total_sql([CodeTest(1, ((0, 3),), 0.5, -1.0)], lambda j: f"c{j}", product=False)
    'CASE WHEN c1 <= 3 THEN 0.5e0 ELSE -1.0e0 END'
    """
    sign = "*" if product else "+"
    return balanced([_sql(term, column) for term in terms], lambda a, b: f"({a} {sign} {b})")


def _sql(decision: Decision, column: Callable[[int], str]) -> str:
    if isinstance(decision, float):
        text = repr(decision)
        return text if "e" in text else text + "e0"  # with an exponent it is a double, else a decimal
    code = column(decision.feature)
    test = " OR ".join(_in_run(code, run) for run in decision.runs)
    return f"CASE WHEN {test} THEN {_sql(decision.inside, column)} ELSE {_sql(decision.outside, column)} END"


def _in_run(code: str, run: Run) -> str:
    first, last = run
    if first == last:
        return f"{code} = {first}"
    return f"{code} <= {last}" if first == 0 else f"{code} BETWEEN {first} AND {last}"
