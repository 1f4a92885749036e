"""Probabilities: as log-odds, and how well they fit labels: log loss, Brier score, AUC, changes of rank, residuals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import xlogy

from mbct.jit import kernel
from mbct.stats.divisions import Bins, atoms_by_group
from mbct.validation import FloatArray

EPSILON = 1e-9
"""Predictions are kept this far from 0 and 1 before their logarithm is taken; log-odds stay within ±20.7."""


def logit(probability: Any) -> FloatArray:
    """log(p / (1 − p)), with p held inside [ε, 1 − ε].

    >>> logit([0.5, 0.75]).round(4).tolist()
    [0.0, 1.0986]
    """
    p = np.clip(np.asarray(probability, dtype=np.float64), EPSILON, 1.0 - EPSILON)
    return np.asarray(np.log(p) - np.log1p(-p), dtype=np.float64)


def sigmoid(log_odds: Any) -> FloatArray:
    """1 / (1 + exp(−z)), without overflow at either end.

    >>> sigmoid([0.0, -1000.0]).tolist()
    [0.5, 0.0]
    """
    z = np.asarray(log_odds, dtype=np.float64)
    small = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0, 1.0, small) / (1.0 + small), dtype=np.float64)


@kernel
def probability_of(log_odds: float) -> float:
    """:func:`sigmoid` of one number, for other kernels, which take it in whole."""
    small = np.exp(-abs(log_odds))
    return float((1.0 if log_odds >= 0.0 else small) / (1.0 + small))


def log_scores(probabilities: FloatArray, floor: float = EPSILON) -> FloatArray:
    """Logarithms of the scores of classes, held at or above ``floor``."""
    return np.log(np.clip(probabilities, floor, 1.0))


def softmax(z: FloatArray) -> FloatArray:
    """Probabilities of rows of log-weights."""
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True), dtype=np.float64)


def scaled_to_one(each: FloatArray) -> FloatArray:
    """Probabilities of classes that were found one by one, scaled to sum to one in each row; uniform if all are 0."""
    total = each.sum(axis=1, keepdims=True)
    return np.where(total > 0.0, each / np.where(total > 0.0, total, 1.0), 1.0 / each.shape[1])


def log_loss_of_logodds(log_odds: FloatArray, label: FloatArray) -> FloatArray:
    """Per-row log loss −y·log q − (1−y)·log(1−q) at q = σ(z), computed as log(1 + e^z) − y·z."""
    return np.logaddexp(0.0, log_odds) - label * log_odds


_SMALLEST = float(np.finfo(np.float64).eps)
"""Predictions are kept this far from 0 and 1 in the log loss, so that a certain mistake costs 36, not infinity."""


def log_loss_of_rows(y_prob: FloatArray, y_true: FloatArray, weight: FloatArray) -> float:
    """−(1/Σw) Σ w·[y·log p + (1 − y)·log(1 − p)].

    >>> round(log_loss_of_rows(np.array([0.5, 0.5]), np.array([0.0, 1.0]), np.ones(2)), 6)
    0.693147
    """
    return float(np.average(log_losses(y_prob, y_true), weights=weight))


def log_losses(y_prob: FloatArray, y_true: FloatArray) -> FloatArray:
    """−y·log p − (1 − y)·log(1 − p) of each row."""
    p = np.clip(y_prob, _SMALLEST, 1.0 - _SMALLEST)
    return np.asarray(-(y_true * np.log(p) + (1.0 - y_true) * np.log1p(-p)), dtype=np.float64)


def entropy(rate: float) -> float:
    """−r·log r − (1 − r)·log(1 − r): the log loss of predicting the rate itself."""
    return float(-xlogy(rate, rate) - xlogy(1.0 - rate, 1.0 - rate))


def entropy_ratio(log_loss: float, rate: float) -> float:
    """Log loss over the log loss of the label rate, its entropy: below 1 where the predictions tell something.

    Not a number where the labels are all equal.
    """
    return float("nan") if rate in (0.0, 1.0) else log_loss / entropy(rate)


@dataclass(frozen=True)
class Decomposition:
    """Score = miscalibration − discrimination + uncertainty, exactly."""

    miscalibration: float
    discrimination: float
    uncertainty: float


def brier_decomposition(atoms: Bins, fit: FloatArray) -> Decomposition:
    """Parts of the Brier score by isotonic recalibration (Dimitriadis, Gneiting & Jordan 2021), without bins.

    With q the isotonic ``fit`` of y on p (:func:`isotonic_rates`) and r the label rate: miscalibration = S(p) − S(q),
    discrimination = S(r) − S(q), uncertainty = S(r) = r(1 − r).
    """
    total = float(atoms.count.sum())
    prediction = atoms.pred / atoms.count
    rate = float(atoms.label.sum()) / total
    # y² = y, so a score at constant c is c² − 2·c·rate + rate within each atom; the last term cancels.
    miscalibration = np.sum((prediction - fit) * (atoms.count * (prediction + fit) - 2.0 * atoms.label)) / total
    discrimination = np.sum((rate - fit) * (atoms.count * (rate + fit) - 2.0 * atoms.label)) / total
    return Decomposition(float(miscalibration), float(discrimination), rate * (1.0 - rate))


def isotonic_rates(atoms: Bins) -> FloatArray:
    """Isotonic fit of the label on the prediction, at each atom."""
    blocks = atoms.joined(atoms.pooled)
    return np.repeat(blocks.label / blocks.count, np.diff(np.append(atoms.pooled, len(atoms))))


def brier_of_atoms(atoms: Bins) -> float:
    """(1/Σw) Σ w·(p − y)²."""
    p = atoms.pred / atoms.count
    return float(np.sum(atoms.label * (1.0 - p) ** 2 + (atoms.count - atoms.label) * p**2) / np.sum(atoms.count))


def log_loss_of_atoms(atoms: Bins) -> float:
    """:func:`log_loss_of_rows` where the rows are joined already."""
    return log_loss_of_rows(atoms.pred / atoms.count, atoms.label / atoms.count, atoms.count)


def log_loss_decomposition(atoms: Bins, log_loss: float) -> Decomposition:
    """Parts of the ``log_loss`` of the atoms by isotonic recalibration.

    >>> atoms = Bins(np.array([2.0, 2.0]), np.array([0.0, 1.0]), np.array([0.5, 1.0]))
    >>> log_loss_decomposition(atoms, log_loss_of_atoms(atoms)).uncertainty
    0.5623351446188083
    """
    blocks, total = atoms.joined(atoms.pooled), float(atoms.count.sum())
    label, rest = blocks.label, blocks.count - blocks.label
    # A rate of 0 or 1 costs nothing in the blocks it comes from.
    recalibrated = -float(np.sum(xlogy(label, label / blocks.count) + xlogy(rest, rest / blocks.count))) / total
    uncertainty = entropy(float(label.sum()) / total)
    return Decomposition(log_loss - recalibrated, uncertainty - recalibrated, uncertainty)


def auc_of_atoms(atoms: Bins) -> float:
    """P(a positive is ranked above a negative) + ½·P(tie); not a number where one class is absent.

    >>> auc_of_atoms(Bins(np.array([1.0, 2.0]), np.array([0.0, 1.0]), np.array([0.1, 1.0])))
    0.75
    """
    negative = atoms.count - atoms.label
    pairs = float(atoms.label.sum()) * float(negative.sum())
    below = np.cumsum(negative) - negative
    return float(np.sum(atoms.label * (below + negative / 2.0)) / pairs) if pairs > 0 else float("nan")


def auc_of_rows(ranked_by: FloatArray, y_true: FloatArray, weight: FloatArray) -> float:
    """:func:`auc_of_atoms` of rows in whatever order."""
    distinct, position = np.unique(ranked_by, return_inverse=True)
    count, label = (np.bincount(position, amount).astype(np.float64) for amount in (weight, weight * y_true))
    return auc_of_atoms(Bins(count, label, count * distinct))


def auc_by_group(
    y_prob: FloatArray, y_true: FloatArray, weight: FloatArray, group: npt.NDArray[np.int64], n_groups: int
) -> FloatArray:
    """AUC within each group; not a number where a group lacks a class."""
    of_group, atoms = atoms_by_group(y_prob, y_true, weight, group)
    positive, negative = atoms.label, atoms.count - atoms.label
    positives = np.bincount(of_group, positive, n_groups)
    negatives = np.bincount(of_group, negative, n_groups)
    earlier = np.concatenate([[0.0], np.cumsum(negatives)])[of_group]
    below = np.cumsum(negative) - negative - earlier
    won = np.bincount(of_group, positive * (below + negative / 2.0), n_groups)
    pairs = positives * negatives
    return np.asarray(np.where(pairs > 0, won / np.where(pairs > 0, pairs, 1.0), np.nan), dtype=np.float64)


def reorder_rate(before: FloatArray, after: FloatArray) -> float:
    """Share of the pairs that ``before`` tells apart whose order ``after`` turns round; ties after do not count.

    >>> reorder_rate(np.array([0.1, 0.2, 0.3]), np.array([0.1, 0.4, 0.3]))
    0.3333333333333333
    """
    order = np.lexsort((after, before))
    first = before[order]
    run = np.diff(np.flatnonzero(np.concatenate([[True], first[1:] != first[:-1], [True]])))
    told_apart = 0.5 * (len(order) * (len(order) - 1.0) - float(np.sum(run * (run - 1.0))))
    if told_apart <= 0.0:
        return 0.0
    # Rows equal before stand in rising order of after, so no pair of them is an inversion.
    return _inversions(np.unique(after[order], return_inverse=True)[1]) / told_apart


@kernel
def _inversions(rank: npt.NDArray[np.int64]) -> float:
    """Pairs i < j with rank[i] > rank[j], by a Fenwick tree that counts the ranks so far; ranks begin with 0."""
    tree = np.zeros(rank.max() + 2, np.int64)
    total = 0.0
    for i in range(len(rank)):
        no_higher = 0
        at = rank[i] + 1
        while at > 0:
            no_higher += tree[at]
            at -= at & -at
        total += i - no_higher
        at = rank[i] + 1
        while at < len(tree):
            tree[at] += 1
            at += at & -at
    return total


@dataclass(frozen=True)
class BlockCorrelation:
    """Intra-class correlation of residuals and the share of random groupings that reach it."""

    value: float
    p_value: float


def block_correlation(
    y_true: FloatArray,
    y_prob: FloatArray,
    block: npt.NDArray[np.integer],
    *,
    within: Sequence[npt.NDArray[np.integer]] = (),
    n_permutations: int = 99,
    seed: int = 0,
) -> BlockCorrelation:
    """Mean product of the standardized residuals of two rows of one block, tested against permuted blocks.

    With r_i = (y_i − p_i)/√(p_i(1 − p_i)) less its mean, and its means ``within`` other groups of rows, over all pairs
    of rows of one block, ρ = Σ_b((Σr)² − Σr²) / Σ_b n_b(n_b − 1). The first permutation that reaches it ends the test:
    the p-value is one over their number (Besag & Clifford 1991).

    >>> rng = np.random.default_rng(0)
    >>> block = np.repeat(np.arange(200), 20)
    >>> shock = rng.normal(0.0, 1.0, 200)[block]
    >>> shared = (rng.random(4000) < 1.0 / (1.0 + np.exp(-shock))).astype(float)
    >>> found = block_correlation(shared, np.full(4000, 0.5), block)
    >>> round(found.value, 1), found.p_value
    (0.2, 0.01)
    """
    variance = np.clip(y_prob * (1.0 - y_prob), 1e-6, None)
    residual = (y_true - y_prob) / np.sqrt(variance)
    for group in (np.zeros(len(residual), dtype=np.intp), *within):
        n_rows = np.bincount(group)
        residual -= (np.bincount(group, residual) / np.maximum(n_rows, 1))[group]
    _, number, size = np.unique(block, return_inverse=True, return_counts=True)
    pairs = float(np.sum(size * (size - 1.0)))
    if pairs == 0.0:
        return BlockCorrelation(0.0, 1.0)
    own = float(np.sum(residual**2))

    def shared(values: FloatArray) -> float:
        return float(np.sum(np.bincount(number, values) ** 2)) - own

    found = shared(residual)
    rng = np.random.default_rng(seed)
    for tried in range(1, n_permutations + 1):
        if shared(rng.permutation(residual)) >= found:
            return BlockCorrelation(found / pairs, 1.0 / tried)
    return BlockCorrelation(found / pairs, 1.0 / (1.0 + n_permutations))


_CENTRING_STEPS = 4


def centring_shift(start: FloatArray, weight: FloatArray, steps: FloatArray, total: FloatArray) -> float:
    """What must be added to the log-odds ``start + total`` for the mean prediction of ``start + steps``."""
    target = float(np.sum(weight * sigmoid(start + steps).mean(axis=0)))
    centre = 0.0
    for _ in range(_CENTRING_STEPS):
        q = sigmoid(start + total + centre)
        centre += (target - float(np.sum(weight * q))) / float(np.sum(weight * q * (1.0 - q)))
    return centre
