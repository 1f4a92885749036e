"""Decisions as CASE expressions: nested, and flat below the depth that an engine bears.

Expressions are lists of lines until the very end: a line may hold a string with a line break of its own, which
indenting a finished text would change.
"""

from collections.abc import Callable, Iterable, Iterator

from mbct.model.conditions import CodeBranch, Decision, Leaf

WriteCondition = Callable[[CodeBranch, int], str]
"""Writes the condition of one case of a branch."""
Number = Callable[[float], str]
_INDENT = "  "


def indented(lines: Iterable[str], levels: int = 1) -> list[str]:
    """Lines moved to the right."""
    return [_INDENT * levels + line for line in lines]


def case_lines(
    decision: Decision, condition: WriteCondition, number: Number, max_depth: int | None = None
) -> Iterator[str]:
    """One tree as a CASE expression, nested at most ``max_depth`` deep."""
    if isinstance(decision, Leaf):
        yield number(decision.leaf_value)
        return
    yield "CASE"
    if max_depth == 1 and _case_depth(decision) > 1:
        *rest, (_, last) = _flat(decision, condition)
        yield from indented(f"WHEN {' AND '.join(tests)} THEN {number(value)}" for tests, value in rest)
    else:
        below = None if max_depth is None else max_depth - 1
        for branch, position in _chain(decision):
            opening = f"{_INDENT}WHEN {condition(branch, position)} THEN"
            yield from _placed(opening, case_lines(branch.cases[position].below, condition, number, below))
        last = _end(decision).leaf_value
    yield f"{_INDENT}ELSE {number(last)}"
    yield "END"


def _chain(decision: Decision) -> Iterator[tuple[CodeBranch, int]]:
    """All cases that one CASE can hold: those of a branch, of its default, of the default's default."""
    while isinstance(decision, CodeBranch):
        for position in range(len(decision.cases)):
            yield decision, position
        decision = decision.default.below


def _end(decision: Decision) -> Leaf:
    while isinstance(decision, CodeBranch):
        decision = decision.default.below
    return decision


def _case_depth(decision: Decision) -> int:
    return max((1 + _case_depth(branch.cases[i].below) for branch, i in _chain(decision)), default=0)


def _placed(opening: str, lines: Iterator[str]) -> Iterator[str]:
    """A value after its opening: on the same line if it is a single one, indented below it otherwise."""
    first = next(lines)
    second = next(lines, None)
    if second is None:
        yield f"{opening} {first}"
        return
    yield opening
    yield from indented((first, second, *lines), 2)


def _flat(decision: Decision, condition: WriteCondition) -> Iterator[tuple[tuple[str, ...], float]]:
    """Tests and value of each leaf, in an order in which the first that passes is the right one.

    The last leaf below a case needs the case's own test alone, so a row that enters a case always ends in it, and
    a test that is unknown because of NULL fails here as it does in nested form.
    """
    if isinstance(decision, Leaf):
        yield (), decision.leaf_value
        return
    for position, case in enumerate(decision.cases):
        test = condition(decision, position)
        bracketed = f"({test})" if " OR " in test else test
        for tests, value in _flat(case.below, condition):
            yield (bracketed, *tests), value
    yield from _flat(decision.default.below, condition)
