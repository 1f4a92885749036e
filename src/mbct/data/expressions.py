"""The expressions that every engine runs: numbers, sums, log-odds, and walks down a tree, as objects or SQL text."""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import TypeVar

import narwhals.stable.v2 as nw
from narwhals.stable.v2.dtypes import DType

from mbct.model.bins import NumberBins
from mbct.model.conditions import CodeDecision, Run
from mbct.stats.probabilities import EPSILON

Term = TypeVar("Term")
_MOST_RUNS = 4  # More runs of codes are tested by a list of codes


def number(column: str, dtype: DType | None = None) -> nw.Expr:
    """A column as double, null where it is missing or not a number; −0 is 0.

    Where ``dtype`` is known to hold whole numbers or booleans, there is no NaN to look for.
    """
    value = nw.col(column).cast(nw.Float64)
    if dtype is not None and (dtype.is_integer() or isinstance(dtype, nw.Boolean)):
        return value
    # DuckDB takes a Parquet column for free of NaN when its statistics, which never count NaN, hold none, and drops
    # a plain test; an exponential it does not see through.
    return nw.when(~(value.abs() * -1.0).exp().is_nan()).then(value + 0.0)


def has_zone(dtype: DType) -> bool:
    """Whether a column holds timestamps with a zone."""
    return isinstance(dtype, nw.Datetime) and dtype.time_zone is not None


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


def step_of(decision: CodeDecision, column: Callable[[int], str]) -> nw.Expr:
    """A decision as nested conditions on code columns."""
    if isinstance(decision, float):
        return nw.lit(decision)
    code = nw.col(column(decision.feature))
    if len(decision.runs) > _MOST_RUNS:
        test = code.is_in([c for first, last in decision.runs for c in range(first, last + 1)])
    else:
        tests = [(code >= first) & (code <= last) if first else code <= last for first, last in decision.runs]
        test = functools.reduce(operator.or_, tests)
    return nw.when(test).then(step_of(decision.inside, column)).otherwise(step_of(decision.outside, column))


def balanced(terms: Sequence[Term], join: Callable[[Term, Term], Term]) -> Term:
    """Terms joined in pairs, so that hundreds of trees do not nest hundreds deep."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return join(balanced(terms[:middle], join), balanced(terms[middle:], join))


def total_sql(terms: Sequence[CodeDecision], column: Callable[[int], str], *, product: bool) -> str:
    """Sum or product of all terms as SQL; ``column`` quotes the code column of a feature.

    >>> from mbct.model.conditions import CodeTest
    >>> total_sql([CodeTest(1, ((0, 3),), 0.5, -1.0)], lambda j: f"c{j}", product=False)
    'CASE WHEN c1 <= 3 THEN 0.5e0 ELSE -1.0e0 END'
    """
    sign = "*" if product else "+"
    return balanced([_sql(term, column) for term in terms], lambda a, b: f"({a} {sign} {b})")


def _sql(decision: CodeDecision, column: Callable[[int], str]) -> str:
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
