"""Effects of single values: before any tree, every value of a category gets a step of its own, shrunk as the data ask.

Where a category has hundreds of values, each with a bias of its own, trees of two children find them slowly and one by
one. Here all values of all categories are fitted jointly, as random effects: the steps of feature j are drawn from a
normal distribution of variance 1/τ_j, so that a step is k = (G + H·k)/(H + τ_j), and τ_j = Σ H/(H + τ_j) / Σ k²
follows from the steps themselves (MacKay's fixed point). A category that tells nothing has τ → ∞ and no step.
"""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.boosting.newton import move, newton_sums
from mbct.boosting.parts import Parts, summed_log_loss
from mbct.cells.group import CodeMatrix
from mbct.tree.honest_grower import STEP_LIMIT
from mbct.tree.model import STOP, CalibrationTree, rounded
from mbct.validation import FloatArray

_PASSES = 8
_FIRST_TAU = 10.0
_LEAST_TAU, _LARGEST_TAU = 0.5, 1e7
_LARGEST_CHANGE = 2.0
"""No pass moves a step by more than this."""
_DECIMALS = 9
"""Of steps, so that the order of summation cannot reach a model's bytes."""
_LEAST_PROGRESS = 1e-7
"""Fall of the mean held-out loss for which another pass is worth its time."""
_MOST_GROUPS = 64
"""Values of nearly equal steps share a leaf; so many leaves keep all but 0.1 % of what the steps tell apart."""
_GROUPING_PASSES = 20


@dataclass(frozen=True)
class ValueEffects:
    """The folds' steps by code and constants, where they leave each row's log-odds, and the mean held-out loss."""

    features: tuple[int, ...]
    steps: tuple[FloatArray, ...]
    constants: tuple[float, ...]
    log_odds: tuple[FloatArray, ...]
    loss: float

    def step_of(self, fold: int, codes: CodeMatrix, offset: npt.NDArray[np.int64]) -> FloatArray:
        """Summed step of coded rows."""
        total = np.full(len(codes), self.constants[fold])
        for j in self.features:
            total += self.steps[fold][offset[j] : offset[j + 1]][codes[:, j]]
        return total


class _EffectsFold:
    """One fold's steps: fitted on the other folds' rows, judged on its own."""

    def __init__(self, parts: Parts, fold: int, features: Sequence[int]):
        self.parts = parts
        self.features = features
        self.fitted_on = np.flatnonzero(parts.fold != fold).astype(np.int32)
        self.left_out = np.flatnonzero(parts.fold == fold).astype(np.int32)
        self.log_odds = parts.log_odds.copy()
        self.steps = np.zeros(parts.offset[-1])
        self.constant = 0.0
        self.tau = dict.fromkeys(features, _FIRST_TAU)

    def improve(self) -> float:
        """One pass over all categories; returns the summed log loss of the rows left out."""
        parts = self.parts
        for j in self.features:
            own = slice(parts.offset[j], parts.offset[j + 1])
            before, tau = self.steps[own].copy(), self.tau[j]
            value = parts.codes[:, j]
            g, h = newton_sums(self.fitted_on, value, self.log_odds, parts.count, parts.label, len(before))
            if not np.any(h > 0.0):
                continue  # so few rows that none is left for this fold
            change = np.where(h > 0.0, np.clip((g - tau * before) / (h + tau), -_LARGEST_CHANGE, _LARGEST_CHANGE), 0.0)
            moved = before + change
            centre = round(float(np.sum(h * moved) / np.sum(h)), _DECIMALS)
            after = np.where(h > 0.0, np.clip(np.round(moved - centre, _DECIMALS), -STEP_LIMIT, STEP_LIMIT), 0.0)
            self.steps[own] = after
            self.constant += centre
            move(self.log_odds, after + centre - before, value)
            freedom, size = float(np.sum(h / (h + tau))), float(np.sum(after**2))
            self.tau[j] = min(max(freedom / max(size, 1e-12), _LEAST_TAU), _LARGEST_TAU)
        return summed_log_loss(self.left_out, self.log_odds, parts.count, parts.label)


def fit_effects(parts: Parts, n_folds: int, pool: Executor) -> ValueEffects | None:
    """Effects of the categories that trees may split by, at the pass with the lowest held-out loss.

    None where there is no category, or where rows left out gain nothing.
    """
    features = tuple(int(j) for j in parts.usable if not parts.ordered[j])
    if not features:
        return None
    folds = [_EffectsFold(parts, fold, features) for fold in range(n_folds)]
    mass = float(parts.count.sum())
    everywhere = np.arange(len(parts.count), dtype=np.int32)
    base = lowest = summed_log_loss(everywhere, parts.log_odds, parts.count, parts.label) / mass
    best = None
    for number in range(_PASSES):
        loss = sum(pool.map(lambda fold: fold.improve(), folds)) / mass
        if loss < min(base, lowest):
            steps = tuple(fold.steps.copy() for fold in folds)
            constants = tuple(fold.constant for fold in folds)
            best = ValueEffects(features, steps, constants, tuple(fold.log_odds.copy() for fold in folds), loss)
        if number > 0 and loss > lowest - _LEAST_PROGRESS:
            break
        lowest = min(loss, lowest) if number else loss
    return best


def effect_trees(effects: ValueEffects, factor: float, parts: Parts) -> tuple[CalibrationTree, ...]:
    """A tree of one split for each category: the mean of the folds' steps, times ``factor``.

    The first holds the constant too.
    """
    mean, constant = factor * np.mean(effects.steps, axis=0), factor * float(np.mean(effects.constants))
    found: list[CalibrationTree] = []
    for j in effects.features:
        steps = mean[parts.offset[j] : parts.offset[j + 1]]
        if not found or np.any(np.round(steps, _DECIMALS)):
            mass = np.bincount(parts.codes[:, j], parts.count, len(steps)).astype(np.float64)
            found.append(_table_tree(j, steps, mass, 0.0 if found else constant))
    return tuple(found)


def _table_tree(feature: int, steps: FloatArray, mass: FloatArray, constant: float) -> CalibrationTree:
    """A root whose children are groups of values with nearly equal steps; codes without rows stop at the root."""
    seen = np.flatnonzero(mass > 0.0)
    group, step = grouped(np.round(steps[seen], _DECIMALS), mass[seen], _MOST_GROUPS)
    table = np.full(len(steps), STOP, dtype=np.int32)
    table[seen] = group + 1
    n_nodes = len(step) + 1
    split_by = np.full(n_nodes, -1, dtype=np.int32)
    split_by[0] = feature
    start = np.full(n_nodes, len(table), dtype=np.int64)
    start[0] = 0
    nothing = np.zeros(n_nodes)
    return CalibrationTree(split_by, start, table, rounded(constant + np.append(0.0, step)), nothing, nothing, nothing)


def grouped(values: FloatArray, mass: FloatArray, most: int) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Number of each value's group, and the groups' means: at most ``most`` groups of near values, rising.

    Lloyd's passes on a line, from groups of equal mass.

    >>> group, mean = grouped(np.array([0.0, 1.0, 1.1, 0.1]), np.ones(4), 2)
    >>> group.tolist(), mean.tolist()
    ([0, 1, 1, 0], [0.05, 1.05])
    """
    distinct, index = np.unique(values, return_inverse=True)
    weight = np.bincount(index, mass)
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
