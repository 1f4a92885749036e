"""Offsets: a step on the log-odds for each code of some features, applied before the trees; one set a fold.

Logit recalibration (Platt scaling) is a step for each bin of the score, k_c = a + b·z̄_c with z̄_c the bin's mean
log-odds: two numbers express what would cost the trees dozens of rounds, and can be significant where trees are not.
:mod:`mbct.training.value_offsets` has steps for the values of categories.
"""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix
from mbct.model.tree import STOP, CalibrationTree, IntArray, rounded
from mbct.stats.probabilities import probability_of
from mbct.training.binned_rows import BinnedRows, RowNumbers
from mbct.training.evidence import RECALIBRATION_CHI2
from mbct.validation import FloatArray

DECIMALS = 9
"""Of steps, so that the order of summation cannot reach a model's bytes."""
SCORE = 0
"""Number of the feature that holds the score's bins."""
_NEWTON_STEPS = 12
_SMALL = 1e-10  # Change of a Newton step at which it has converged
_RIDGE = 1.0
"""A normal prior of variance 1 on shift and slope; it only counts where rows are few, or all have one label."""
_MOST_GROUPS = 64
"""Codes of nearly equal steps share a leaf; so many leaves keep all but 0.2 % of the variance of the steps."""
_GROUPING_PASSES = 20

Request = TypeVar("Request")
Answer = TypeVar("Answer")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Offsets:
    """The folds' steps by code and constants, and each row's log-odds after them."""

    features: tuple[int, ...]
    steps: tuple[FloatArray, ...]
    constants: tuple[float, ...]
    log_odds: tuple[FloatArray, ...]

    def step_of(self, fold: int, codes: CodeMatrix, offset: npt.NDArray[np.int64]) -> FloatArray:
        """Summed step of coded rows."""
        total = np.full(len(codes), self.constants[fold])
        for j in self.features:
            total += self.steps[fold][offset[j] : offset[j + 1]][codes[:, j]]
        return total

    def and_then(self, later: "Offsets") -> "Offsets":
        """These steps and ``later`` ones, which were fitted after them."""
        return Offsets(
            self.features + later.features,
            tuple(own + other for own, other in zip(self.steps, later.steps, strict=True)),
            tuple(own + other for own, other in zip(self.constants, later.constants, strict=True)),
            later.log_odds,
        )

    def held_out(self, rows: BinnedRows) -> FloatArray:
        """Log-odds of each row after the steps of the fold that holds it out; of others before them."""
        found = rows.log_odds.copy()
        for fold, log_odds in enumerate(self.log_odds):
            own = rows.held_out_rows(fold)
            found[own] = log_odds[own]
        return found


def offset_trees(
    features: tuple[int, ...], steps: FloatArray, constant: float, rows: BinnedRows
) -> tuple[CalibrationTree, ...]:
    """:func:`trees_of_steps` with the weight that the rows have in each code."""

    def weight(j: int) -> FloatArray:
        n_codes = int(rows.offset[j + 1] - rows.offset[j])
        return np.bincount(rows.codes[:, j], rows.weight, n_codes).astype(np.float64)

    return trees_of_steps(features, steps, constant, rows.offset, weight)


def trees_of_steps(
    features: tuple[int, ...],
    steps: FloatArray,
    constant: float,
    offset: npt.NDArray[np.int64],
    weight: Callable[[int], FloatArray],
) -> tuple[CalibrationTree, ...]:
    """A tree of one split for each feature whose ``steps`` are not all zero; the first holds the constant too."""
    found: list[CalibrationTree] = []
    for j in features:
        own = steps[offset[j] : offset[j + 1]]
        if not found or np.any(np.round(own, DECIMALS)):
            found.append(_table_tree(j, own, weight(j), 0.0 if found else constant))
    return tuple(found)


def strongest(trees: Sequence[CalibrationTree], most: int, most_groups: int) -> tuple[CalibrationTree, ...]:
    """The ``most`` trees of one split that move rows farthest apart, in their order, with at most so many groups."""

    def variance(tree: CalibrationTree) -> float:
        weight, step = tree.count[1:], tree.leaf_value[1:]
        return float(np.sum(weight * (step - np.average(step, weights=weight)) ** 2))

    chosen = sorted(sorted(range(len(trees)), key=lambda i: -variance(trees[i]))[:most])
    return tuple(_coarser(trees[i], most_groups) for i in chosen)


def _coarser(tree: CalibrationTree, most_groups: int) -> CalibrationTree:
    """A tree of one split with its children joined to fewer."""
    group, step = grouped(tree.leaf_value[1:], tree.count[1:], most_groups)
    joined = np.append(group + 1, STOP).astype(np.int32)  # STOP is -1, the last position
    table = joined[np.where(tree.table == STOP, STOP, tree.table - 1)]
    return _one_split(int(tree.feature[0]), table, np.append(tree.leaf_value[0], step))


def _table_tree(feature: int, steps: FloatArray, weight: FloatArray, constant: float) -> CalibrationTree:
    """A root whose children are groups of codes with nearly equal steps; codes without rows stay at the root."""
    seen = np.flatnonzero(weight > 0.0)
    group, step = grouped(np.round(steps[seen], DECIMALS), weight[seen], _MOST_GROUPS)
    table = np.full(len(steps), STOP, dtype=np.int32)
    table[seen] = group + 1
    return _one_split(feature, table, constant + np.append(0.0, step))


def _one_split(feature: int, table: IntArray, step: FloatArray) -> CalibrationTree:
    """A tree whose root's children are all leaves; their sums are filled in later."""
    split_by = np.full(len(step), -1, dtype=np.int32)
    split_by[0] = feature
    start = np.full(len(step), len(table), dtype=np.int64)
    start[0] = 0
    nothing = np.zeros(len(step))
    return CalibrationTree(split_by, start, table, rounded(step), nothing, nothing, nothing)


def grouped(values: FloatArray, amount: FloatArray, most: int) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Number of each value's group, and the groups' means: at most ``most`` groups of near values, rising.

    Lloyd's algorithm in one dimension, from groups of equal weight.

    >>> group, mean = grouped(np.array([0.0, 1.0, 1.1, 0.1]), np.ones(4), 2)
    >>> group.tolist(), mean.tolist()
    ([0, 1, 1, 0], [0.05, 1.05])
    """
    distinct, index = np.unique(values, return_inverse=True)
    weight = np.bincount(index, amount)
    if len(distinct) <= most:
        return index, distinct
    reached = np.cumsum(weight) / weight.sum()
    member = np.minimum((reached * most).astype(np.intp), most - 1)
    for _ in range(_GROUPING_PASSES):
        _, member = np.unique(member, return_inverse=True)
        centre = np.bincount(member, weight * distinct) / np.bincount(member, weight)
        moved = np.searchsorted((centre[1:] + centre[:-1]) / 2.0, distinct)
        if np.array_equal(moved, member):
            break
        member = moved
    _, member = np.unique(member, return_inverse=True)
    centre = np.bincount(member, weight * distinct) / np.bincount(member, weight)
    return member[index], np.asarray(centre)


def fit_recalibration(rows: BinnedRows, n_folds: int, pool: Executor, start: Offsets | None = None) -> Offsets | None:
    """The folds' recalibrations after ``start``, fitted on the other folds; None where held-out rows do not gain."""
    if SCORE not in rows.usable:
        return None
    scores = standardized_scores(rows)
    starts = (rows.log_odds,) * n_folds if start is None else start.log_odds
    steps = tuple(pool.map(lambda k: _fitted_steps(rows, scores, rows.train_rows(k), starts[k]), range(n_folds)))
    log_odds = tuple(z + step[rows.codes[:, SCORE]] for z, step in zip(starts, steps, strict=True))
    if rows.held_out_loss(log_odds) >= rows.held_out_loss(starts):
        return None
    found = Offsets((SCORE,), steps, (0.0,) * n_folds, log_odds)
    return found if start is None else start.and_then(found)


def significant_recalibration(rows: BinnedRows) -> FloatArray | None:
    """Steps by code fitted on all rows, of which the share 1 − 2/χ² is kept; None where χ² is not significant."""
    if SCORE not in rows.usable:
        return None
    every, start = rows.all_rows, rows.log_odds
    steps = _fitted_steps(rows, standardized_scores(rows), every, start)
    return shrunk_line(steps, rows.loss(every, start) - rows.loss(every, start + steps[rows.codes[:, SCORE]]))


def shrunk_line(steps: FloatArray, gained: float) -> FloatArray | None:
    """The share 1 − 2/χ² of steps that gained so much in log-likelihood; None where χ² is not significant."""
    return None if 2.0 * gained < RECALIBRATION_CHI2 else (1.0 - 1.0 / gained) * steps


def standardized_scores(rows: BinnedRows) -> FloatArray:
    """Mean log-odds of each bin of the score, scaled to mean 0 and standard deviation 1 over all rows."""
    code, n_codes = rows.codes[:, SCORE], int(rows.offset[SCORE + 1])
    weight = np.bincount(code, rows.weight, n_codes).astype(np.float64)
    return standardized(weight, np.bincount(code, rows.weight * rows.log_odds, n_codes).astype(np.float64))


def standardized(weight: FloatArray, total: FloatArray) -> FloatArray:
    """Standardized mean of each bin of some weight and total."""
    mean = total / np.maximum(weight, 1e-300)
    seen = weight > 0.0
    centre = np.average(mean[seen], weights=weight[seen])
    spread = np.sqrt(np.average((mean[seen] - centre) ** 2, weights=weight[seen]))
    scores = np.where(seen, (mean - centre) / (spread if spread > 0.0 else 1.0), 0.0)
    return np.asarray(np.round(scores, DECIMALS), dtype=np.float64)


def _fitted_steps(rows: BinnedRows, scores: FloatArray, train_rows: RowNumbers, log_odds: FloatArray) -> FloatArray:
    """Step of each bin of the score on the line that fits the training rows best, by Newton's method with the ridge."""

    def sums_at(step: FloatArray) -> LineSums:
        return line_sums(train_rows, rows.codes, log_odds, rows.weight, rows.label, scores, step)

    return line_steps(*answered(newton_line(scores), sums_at), scores, int(rows.offset[-1]))


def line_steps(shift: float, slope: float, scores: FloatArray, n_codes: int) -> FloatArray:
    """Step of each bin of the score on a line; behind them come the codes of all other features, without a step."""
    steps = np.zeros(n_codes)
    steps[: len(scores)] = np.round(shift + slope * scores, DECIMALS)
    return steps


LineSums = tuple[float, float, float, float, float]


def newton_line(scores: FloatArray, small: float = _SMALL) -> Generator[FloatArray, LineSums, tuple[float, float]]:
    """Shift and slope that fit rows best; asks for their :func:`line_sums` at steps of the score's bins."""
    shift = slope = 0.0
    for _ in range(_NEWTON_STEPS):
        g, gx, h, hx, hxx = yield shift + slope * scores
        curvature = np.array([[h + _RIDGE, hx], [hx, hxx + _RIDGE]])
        change = np.linalg.solve(curvature, np.array([g - _RIDGE * shift, gx - _RIDGE * slope]))
        # A step of more than one in log-odds at once may overshoot where the sigmoid is flat.
        change /= max(1.0, float(np.abs(change).max()))
        shift, slope = shift + float(change[0]), slope + float(change[1])
        if np.abs(change).max() < small:
            break
    return shift, slope


@kernel
def line_sums(
    rows: RowNumbers,
    codes: npt.NDArray[np.uint8],
    log_odds: FloatArray,
    weight: FloatArray,
    label: FloatArray,
    scores: FloatArray,
    step: FloatArray,
) -> LineSums:
    """Sums of gradient and curvature, plain and times the standardized score, at log-odds moved by the step."""
    g, gx, h, hx, hxx = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in rows:
        code = codes[i, 0]
        x = scores[code]
        z = log_odds[i] + step[code]
        q = probability_of(z)
        gradient = label[i] - weight[i] * q
        curvature = weight[i] * q * (1.0 - q)
        g += gradient
        gx += gradient * x
        h += curvature
        hx += curvature * x
        hxx += curvature * x * x
    return g, gx, h, hx, hxx


def answered(asking: Generator[Request, Answer, Found], answer: Callable[[Request], Answer]) -> Found:
    """What an algorithm finds that asks for sums over rows, given the answer to each of its requests.

    >>> def doubled():
    ...     return 2 * (yield "how many?")
    >>> answered(doubled(), len)
    18
    """
    return answered_together([asking], lambda requests: {k: answer(each) for k, each in requests.items()})[0]


def answered_together(
    asking: Sequence[Generator[Request, Answer, Found]], answer: Callable[[dict[int, Request]], dict[int, Answer]]
) -> list[Found]:
    """What several algorithms find side by side, so that one pass over rows in shards answers all of them.

    ``answer`` is given the requests of all that still ask, by number.
    """
    found: dict[int, Found] = {}
    requests = {k: next(each) for k, each in enumerate(asking)}
    while requests:
        answers, requests = answer(requests), {}
        for k, sums in answers.items():
            try:
                requests[k] = asking[k].send(sums)
            except StopIteration as finished:
                found[k] = finished.value
    return [found[k] for k in range(len(asking))]
