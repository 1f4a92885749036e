"""Offsets: a step on the log-odds for each code of some features, applied before the trees; one set a fold.

Logit recalibration (Platt scaling) is a step for each bin of the score, k_c = a + b·z̄_c with z̄_c the bin's mean
log-odds: two numbers express what would cost the trees dozens of rounds, and can be significant where trees are not.

Per-value offsets: where a category has hundreds of values, each with a bias of its own, binary trees find them one by
one. Here all values of all categories are fitted jointly, as random effects. The steps of a feature are drawn from a
mixture of normal distributions around zero, of spreads 0 to 1.6, whose weights follow from the steps themselves
(empirical Bayes, by EM): where most values are right and few are wrong, the right ones are left alone and the wrong
ones are hardly shrunk. An uninformative category has all weight on spread 0 and no step.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix
from mbct.model.tree import STOP, CalibrationTree, IntArray, rounded
from mbct.stats.probabilities import probability_of
from mbct.training.binned_rows import BinnedRows, RowNumbers
from mbct.training.evidence import LEAST_OFFSET_PROGRESS, RECALIBRATION_CHI2
from mbct.training.grower import move, newton_sums
from mbct.training.nodes import VALUE_LIMIT
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
    """A tree of one split for each feature whose ``steps`` are not all zero; the first holds the constant too."""
    found: list[CalibrationTree] = []
    for j in features:
        own = steps[rows.offset[j] : rows.offset[j + 1]]
        if not found or np.any(np.round(own, DECIMALS)):
            weight = np.bincount(rows.codes[:, j], rows.weight, len(own)).astype(np.float64)
            found.append(_table_tree(j, own, weight, 0.0 if found else constant))
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
    gained = rows.loss(every, start) - rows.loss(every, start + steps[rows.codes[:, SCORE]])
    return None if 2.0 * gained < RECALIBRATION_CHI2 else (1.0 - 1.0 / gained) * steps


def standardized_scores(rows: BinnedRows) -> FloatArray:
    """Mean log-odds of each bin of the score, scaled to mean 0 and standard deviation 1 over all rows."""
    code, n_codes = rows.codes[:, SCORE], int(rows.offset[SCORE + 1])
    weight = np.bincount(code, rows.weight, n_codes)
    mean = np.bincount(code, rows.weight * rows.log_odds, n_codes) / np.maximum(weight, 1e-300)
    seen = weight > 0.0
    centre = np.average(mean[seen], weights=weight[seen])
    spread = np.sqrt(np.average((mean[seen] - centre) ** 2, weights=weight[seen]))
    scores = np.where(seen, (mean - centre) / (spread if spread > 0.0 else 1.0), 0.0)
    return np.asarray(np.round(scores, DECIMALS), dtype=np.float64)


def _fitted_steps(rows: BinnedRows, scores: FloatArray, train_rows: RowNumbers, log_odds: FloatArray) -> FloatArray:
    """Step of each bin of the score on the line that fits the training rows best, by Newton's method with the ridge.

    Behind the score's bins come the codes of all other features, without a step.
    """
    shift, slope = newton_line(rows, scores, train_rows, log_odds, lambda _: rows.label, _SMALL)
    steps = np.zeros(rows.offset[-1])
    steps[: len(scores)] = np.round(shift + slope * scores, DECIMALS)
    return steps


def newton_line(
    rows: BinnedRows,
    scores: FloatArray,
    train_rows: RowNumbers,
    log_odds: FloatArray,
    label_at: Callable[[FloatArray], FloatArray],
    small: float,
) -> tuple[float, float]:
    """Shift and slope that fit the training rows best; ``label_at`` is their label at the steps of the score's bins."""
    shift = slope = 0.0
    for _ in range(_NEWTON_STEPS):
        step = shift + slope * scores
        g, gx, h, hx, hxx = line_sums(train_rows, rows.codes, log_odds, rows.weight, label_at(step), scores, step)
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
) -> tuple[float, float, float, float, float]:
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


_PASSES = 8
_PASSES_ON_ALL = 2
_VARIANCES = np.array([0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6]) ** 2
_PRIOR_VALUES = np.array([1.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])  # Pseudo-counts of values with each spread
_EM_PASSES = 30
_LARGEST_CHANGE = 2.0  # No pass moves a step by more than this


class _OffsetsFit:
    """Steps fitted on some rows, beside what else has moved the log-odds."""

    def __init__(self, rows: BinnedRows, train_rows: RowNumbers, features: Sequence[int], log_odds: FloatArray):
        self.rows = rows
        self.train_rows = train_rows
        self.features = features
        self.log_odds = log_odds.copy()
        self.steps = np.zeros(rows.offset[-1])
        self.constant = 0.0
        self.weights = {j: np.full(len(_VARIANCES), 1.0 / len(_VARIANCES)) for j in features}

    def improve(self) -> None:
        """One pass over all categories."""
        rows = self.rows
        for j in self.features:
            own = slice(rows.offset[j], rows.offset[j + 1])
            before, value = self.steps[own].copy(), rows.codes[:, j]
            g, h = newton_sums(self.train_rows, value, self.log_odds, rows.weight, rows.label, len(before))
            if not np.any(h > 0.0):
                continue  # so few rows that none is left for this fold
            mean, self.weights[j] = posterior_steps(g + h * before, h, self.weights[j])
            moved = before + np.where(h > 0.0, np.clip(mean - before, -_LARGEST_CHANGE, _LARGEST_CHANGE), 0.0)
            centre = round(float(np.sum(h * moved) / np.sum(h)), DECIMALS)
            after = np.where(h > 0.0, np.clip(np.round(moved - centre, DECIMALS), -VALUE_LIMIT, VALUE_LIMIT), 0.0)
            self.steps[own] = after
            self.constant += centre
            move(self.log_odds, after + centre - before, value)


def posterior_steps(pull: FloatArray, curvature: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Posterior mean of each value's step, and the mixture's weights after some passes of EM.

    A value with curvature H and pull r = G + H·k has, under spread s, the marginal likelihood
    (1 + H·s²)^(−1/2)·exp(r²·s²/(2(1 + H·s²))) against spread 0, and the posterior mean r·s²/(1 + H·s²).
    """
    seen = curvature > 0.0
    scale = _VARIANCES / (1.0 + curvature[:, None] * _VARIANCES)
    log_likelihood = 0.5 * (pull[:, None] ** 2 * scale - np.log1p(curvature[:, None] * _VARIANCES))
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    for _ in range(_EM_PASSES):
        share = likelihood * weights
        share /= share.sum(axis=1, keepdims=True)
        weights = share[seen].sum(axis=0) + _PRIOR_VALUES
        weights /= weights.sum()
    share = likelihood * weights
    share /= share.sum(axis=1, keepdims=True)
    return pull * np.sum(share * scale, axis=1), weights


def fit_value_offsets(rows: BinnedRows, n_folds: int, pool: Executor) -> Offsets | None:
    """Offsets of the categories that trees may split by, at the pass of the lowest held-out loss.

    None where there is no category, or where held-out rows gain nothing.
    """
    features = tuple(int(j) for j in rows.usable if not rows.ordered[j])
    if not features:
        return None
    fits = [_OffsetsFit(rows, rows.train_rows(fold), features, rows.log_odds) for fold in range(n_folds)]
    base = lowest = rows.held_out_loss([fit.log_odds for fit in fits])
    best = None
    for number in range(_PASSES):
        list(pool.map(lambda fit: fit.improve(), fits))
        loss = rows.held_out_loss([fit.log_odds for fit in fits])
        if loss < min(base, lowest):
            steps, constants = tuple(fit.steps.copy() for fit in fits), tuple(fit.constant for fit in fits)
            best = Offsets(features, steps, constants, tuple(fit.log_odds.copy() for fit in fits))
        if number > 0 and loss > lowest - LEAST_OFFSET_PROGRESS:
            break
        lowest = min(loss, lowest) if number else loss
    return best


def refitted(offsets: Offsets, rows: BinnedRows, tree_steps: Callable[[], FloatArray]) -> tuple[FloatArray, float]:
    """Steps and constant: the mean of the folds', those of categories fitted again on all rows beside ``tree_steps``.

    The folds' steps are shrunk as four fifths of the rows ask for; their mean needs less shrinkage.
    """
    steps, constant = np.asarray(np.mean(offsets.steps, axis=0)), float(np.mean(offsets.constants))
    categories = [j for j in offsets.features if not rows.ordered[j]]
    if not categories:
        return steps, constant
    fit = _OffsetsFit(rows, rows.all_rows, categories, rows.log_odds + tree_steps())
    fit.steps, fit.constant = np.asarray(np.round(steps, DECIMALS)), constant
    fit.log_odds += constant
    for j in offsets.features:
        fit.log_odds += fit.steps[rows.offset[j] : rows.offset[j + 1]][rows.codes[:, j]]
    for _ in range(_PASSES_ON_ALL):
        fit.improve()
    return fit.steps, fit.constant
