"""The expressions that every engine runs: numbers, sums, log-odds, and walks down a tree."""

from collections.abc import Callable, Sequence

import narwhals.stable.v2 as nw
import numpy as np

from mbct.binning.features import NumberBins
from mbct.engines.engine import Frame
from mbct.stats.logodds import EPSILON
from mbct.tree.model import STOP, CalibrationTree

_MOST_RUNS = 4
"""A child with more runs of codes is tested by a list of codes."""


def number(column: str) -> nw.Expr:
    """A column as double, null where it is missing or not a number; −0 is 0."""
    value = nw.col(column).cast(nw.Float64)
    # DuckDB takes a Parquet column for free of NaN when its statistics, which never count NaN, hold none, and drops
    # a plain test; an exponential it does not see through.
    return nw.when(~(value.abs() * -1.0).exp().is_nan()).then(value + 0.0)


def number_code(value: nw.Expr, bins: NumberBins) -> nw.Expr:
    """Code of a number: a binary search among the edges, as nested conditions."""

    def search(low: int, high: int) -> nw.Expr:
        if low == high:
            return nw.lit(low)
        middle = (low + high) // 2
        return nw.when(value <= bins.edges[middle]).then(search(low, middle)).otherwise(search(middle + 1, high))

    code = nw.when(value.is_null()).then(nw.lit(bins.missing)).otherwise(search(0, len(bins.edges)))
    return code.cast(nw.Int32)


def log_odds(probability: nw.Expr) -> nw.Expr:
    """log(p / (1 − p)), with p held inside [ε, 1 − ε]."""
    p = probability.clip(EPSILON, 1.0 - EPSILON)
    return p.log() - (1.0 - p).log()


def probability_of(z: nw.Expr) -> nw.Expr:
    """1 / (1 + exp(−z)), without overflow at either end."""
    small = (z.abs() * -1.0).exp()
    return nw.when(z >= 0.0).then(nw.lit(1.0)).otherwise(small) / (small + 1.0)


def cell_sums(p: str, y: str, w: str) -> dict[str, nw.Expr]:
    """What is summed for each cell, under the names of :class:`~mbct.stats.sums.Sums`."""
    prediction, label, weight = nw.col(p), nw.col(y), nw.col(w)
    return {
        "count": weight * 1.0,
        "label": weight * label,
        "pred": weight * prediction,
        "pred2": weight * prediction * prediction,
        "pred_label": weight * prediction * label,
        "logit": weight * log_odds(prediction),
    }


def unpivot(frame: Frame, columns: Sequence[str], into: str, kept: Sequence[str]) -> Frame:
    """One row for each row and each of ``columns``: its value in ``into``, beside the ``kept`` columns."""
    spread = frame.unpivot(on=list(columns), index=list(kept), variable_name=into + "_name", value_name=into)
    return spread.select(into, *kept)


def tree_step(tree: CalibrationTree, n_codes: tuple[int, ...], code_column: Callable[[int], str]) -> nw.Expr:
    """Step of the node where a row stops, as nested conditions on its codes."""

    def at(node: int) -> nw.Expr:
        own = nw.lit(float(tree.step[node]))
        feature = int(tree.feature[node])
        if feature < 0:
            return own
        start = int(tree.table_start[node])
        segments = _segments(tree.table[start : start + n_codes[feature]])
        code = nw.col(code_column(feature))
        repeated = _repeated(segments)
        # A child with several runs must appear once only, or the expression would grow with every level.
        once = [(last, STOP if child in repeated else child) for last, child in segments]
        chosen = _by_interval(code, once, own, at)
        for child, runs in repeated.items():
            chosen = nw.when(_in_runs(code, runs)).then(at(child)).otherwise(chosen)
        return chosen

    return at(0)


def balanced(terms: Sequence[nw.Expr], join: Callable[[nw.Expr, nw.Expr], nw.Expr]) -> nw.Expr:
    """Terms joined in pairs, so that hundreds of trees do not nest hundreds deep."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return join(balanced(terms[:middle], join), balanced(terms[middle:], join))


def _segments(table: np.ndarray) -> list[tuple[int, int]]:
    """(last code, child) of each run of codes that lead to one child.

    >>> _segments(np.array([1, 1, 2, -1]))
    [(1, 1), (2, 2), (3, -1)]
    """
    last = np.flatnonzero(np.r_[table[1:] != table[:-1], True])
    return [(int(code), int(table[code])) for code in last]


def _repeated(segments: list[tuple[int, int]]) -> dict[int, list[tuple[int, int]]]:
    """Children with more than one run, each with its (first, last) runs."""
    runs: dict[int, list[tuple[int, int]]] = {}
    first = 0
    for last, child in segments:
        runs.setdefault(child, []).append((first, last))
        first = last + 1
    return {child: found for child, found in runs.items() if child != STOP and len(found) > 1}


def _by_interval(
    code: nw.Expr, segments: list[tuple[int, int]], own: nw.Expr, at: Callable[[int], nw.Expr]
) -> nw.Expr:
    """Binary search among segments; neighbours that stop are one."""
    merged = [s for s, following in zip(segments, [*segments[1:], (0, None)], strict=True) if s[1] != following[1]]

    def search(low: int, high: int) -> nw.Expr:
        if low == high:
            child = merged[low][1]
            return own if child == STOP else at(child)
        middle = (low + high) // 2
        return nw.when(code <= merged[middle][0]).then(search(low, middle)).otherwise(search(middle + 1, high))

    return search(0, len(merged) - 1)


def _in_runs(code: nw.Expr, runs: list[tuple[int, int]]) -> nw.Expr:
    if len(runs) > _MOST_RUNS:
        return code.is_in([c for first, last in runs for c in range(first, last + 1)])
    tests = [code == first if first == last else (code >= first) & (code <= last) for first, last in runs]
    return balanced(tests, lambda a, b: a | b)
