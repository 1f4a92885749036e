"""Per-value offsets: a step on the log-odds for each value of the categories.

Where a category has hundreds of values, each with a bias of its own, binary trees find them one by one. Here all values
of all categories are fitted jointly, as random effects. The steps of a feature are drawn from a mixture of normal
distributions around zero, of spreads 0 to 1.6, whose weights follow from the steps themselves (empirical Bayes, by EM):
where most values are right and few are wrong, the right ones are left alone and the wrong ones are hardly shrunk. An
uninformative category has all weight on spread 0 and no step.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor

import numpy as np

from mbct.training.binned_rows import BinnedRows, RowNumbers
from mbct.training.evidence import LEAST_OFFSET_PROGRESS
from mbct.training.grower import move, newton_sums
from mbct.training.nodes import VALUE_LIMIT
from mbct.training.offsets import DECIMALS, Offsets
from mbct.validation import FloatArray

_PASSES = 8
PASSES_ON_ALL = 2
"""Passes over the categories on all rows, once the folds have shown that they are worth it."""
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
        self.weights = dict.fromkeys(features, NO_SPREAD)

    def improve(self) -> None:
        """One pass over all categories."""
        rows = self.rows
        for j in self.features:
            own = slice(rows.offset[j], rows.offset[j + 1])
            before, value = self.steps[own].copy(), rows.codes[:, j]
            g, h = newton_sums(self.train_rows, value, self.log_odds, rows.weight, rows.label, len(before))
            if not np.any(h > 0.0):
                continue  # so few rows that none is left for this fold
            self.steps[own], centre, self.weights[j] = improved_steps(before, g, h, self.weights[j])
            self.constant += centre
            move(self.log_odds, self.steps[own] + centre - before, value)


NO_SPREAD = np.full(len(_VARIANCES), 1.0 / len(_VARIANCES))
"""Weights of the mixture before anything is known."""


def improved_steps(
    before: FloatArray, g: FloatArray, h: FloatArray, weights: FloatArray
) -> tuple[FloatArray, float, FloatArray]:
    """Steps of a feature's values around a centre, the centre, and the weights of the mixture that they come from."""
    mean, weights = posterior_steps(g + h * before, h, weights)
    moved = before + np.where(h > 0.0, np.clip(mean - before, -_LARGEST_CHANGE, _LARGEST_CHANGE), 0.0)
    centre = round(float(np.sum(h * moved) / np.sum(h)), DECIMALS)
    after = np.where(h > 0.0, np.clip(np.round(moved - centre, DECIMALS), -VALUE_LIMIT, VALUE_LIMIT), 0.0)
    return after, centre, weights


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

    def offsets() -> Offsets:
        steps, constants = tuple(fit.steps.copy() for fit in fits), tuple(fit.constant for fit in fits)
        return Offsets(features, steps, constants, tuple(fit.log_odds.copy() for fit in fits))

    return best_pass(
        lambda: list(pool.map(lambda fit: fit.improve(), fits)),
        lambda: rows.held_out_loss([fit.log_odds for fit in fits]),
        offsets,
    )


def best_pass(
    improve: Callable[[], object], held_out_loss: Callable[[], float], offsets: Callable[[], Offsets]
) -> Offsets | None:
    """The offsets after the pass of the lowest loss; None where no pass is better than none."""
    base = lowest = held_out_loss()
    best = None
    for number in range(_PASSES):
        improve()
        loss = held_out_loss()
        if loss < min(base, lowest):
            best = offsets()
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
    for _ in range(PASSES_ON_ALL):
        fit.improve()
    return fit.steps, fit.constant
