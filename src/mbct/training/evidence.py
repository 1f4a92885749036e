"""Evidence: when a correction is kept and how much of it.

Every threshold by which a correction is kept or shrunk is in this file. A correction is fitted on some rows and
evaluated on others. Where the evaluation shows no significant gain the predictions stay as they are; where it does, the
correction is shrunk by how uncertain the gain is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mbct.model.bins import CodeMatrix
from mbct.stats.blocks import error_of_total
from mbct.stats.probabilities import sigmoid
from mbct.training.binned_rows import BinnedRows
from mbct.training.block_intercepts import intercept_and_variance
from mbct.training.folds import BlockNumbers, RowBlocks
from mbct.validation import FloatArray

LIKELIHOOD_RATIO = 200.0
"""Held-out likelihood ratio from which a correction is kept: a rule, not a guarantee (see :class:`Gain`)."""
TOTAL_GAIN = 16.0
"""Held-out log-likelihood gain of all folds from which it is kept as well: each of many folds may see a little."""
RECALIBRATION_CHI2 = 13.816
"""Twice the log-likelihood that a logit recalibration must gain: χ² of two degrees exceeds it once in a thousand."""
OFFSETS_AHEAD = 3.0
"""Standard errors by which per-value offsets must be ahead of the first trees, which need fewer assumptions."""
MEAN_AHEAD = 1.0
"""Standard errors by which the mean of two attempts must be ahead of the best one, which is half as large."""
FEATURE_RANKED = 2.0
"""Standard errors that a feature's gain must exceed to count."""
LEAST_PROGRESS = 1e-8
"""Fall of the mean held-out loss that counts as progress of boosting."""
LEAST_OFFSET_PROGRESS = 1e-7
"""Fall of the mean held-out loss for which another pass over the offsets is worth its time."""
SIGNIFICANT_LINE = 4.0
"""Block standard errors that the scale of a shift or a slope must reach for it to be kept."""
SIGNIFICANT_TREES = 4.0
"""The same of trees, whose number and size were chosen on the held-out blocks that evaluate them."""
SIGNIFICANT_GAIN = 3.0
"""Block standard errors that the held-out gain of the shrunken trees must reach as well.

Of 330 calibrated bases with shocks by day, in view of which it was chosen, the largest had 2.9; of real data with a
bias the smallest had 3.4.
"""
FEW_BLOCKS = 20
"""Below so many blocks their sums may vary too little by chance, and the error that is to be expected counts too."""
SELECTION = 1.5
"""Standard errors by which choices made on few held-out blocks may lift a statistic of them."""
IDENTIFIES_TIME = 0.5
"""Mean total variation between stretches of time above which a feature identifies the time and is left out."""
_NEWTON_STEPS = 12
_LARGEST_CHANGE = 0.5
_SMALL = 1e-9


@dataclass(frozen=True)
class Gain:
    """Fall of the mean held-out log loss, its standard error, and the evidence that it is not chance.

    ``evidence`` is log mean_k exp(G_k), with G_k the log-likelihood that fold k's rows gain from a model not fitted on
    them. Under a calibrated base, and for a model fixed without fold k, exp(G_k) is a likelihood ratio of mean 1; so is
    the mean over folds, which by Markov's inequality would exceed 200 in at most one data set in 200. Here that holds
    only approximately: the number of trees, their size, offsets or none and the ranking are chosen on the same held-out
    rows, which lifts G_k. So 200 is a rule, not a guarantee, and what it does was measured
    (``benchmarks/known_truth.py``): of 200 fresh calibrated bases none was changed. Of 400 earlier ones, in view of
    which the rule was made, the largest was 161 to 1, the next 29 to 1.

    ``total`` is the sum of the G_k. The folds' models share rows, so it is not the logarithm of a likelihood ratio, and
    its limit is a rule as well: of 350 calibrated bases, in view of which it was chosen, the largest had 11.7, the next
    7.3. ``by_fold`` is the mean gain of each fold, ``by_feature`` that of each feature's offsets and splits.
    """

    value: float
    standard_error: float
    evidence: float
    total: float
    by_fold: tuple[float, ...] = ()
    by_feature: tuple[float, ...] = ()

    @property
    def is_significant(self) -> bool:
        """Whether a correction with this gain is kept at all."""
        likely = self.evidence >= np.log(LIKELIHOOD_RATIO) or self.total >= TOTAL_GAIN
        return bool(likely and self.value > self.standard_error)

    @property
    def shrinkage(self) -> float:
        """Share of a correction to keep: 1 − 1/z² at z standard errors, 0 where it is not significant."""
        return 1.0 - (self.standard_error / self.value) ** 2 if self.is_significant else 0.0


def gain_of_rows(gain: FloatArray, square: FloatArray, weight: float, fold: npt.NDArray[np.uint8]) -> Gain:
    """Gain from each part's summed gain and summed squared gain of its rows."""
    mean = float(np.sum(gain)) / weight
    variance = max(float(np.sum(square)) / weight - mean * mean, 0.0)
    by_fold = np.bincount(fold, gain)
    top = float(by_fold.max())
    evidence = top + float(np.log(np.mean(np.exp(by_fold - top))))
    return Gain(mean, float(np.sqrt(variance / weight)), evidence, float(by_fold.sum()))


def held_out_gain(rows: BinnedRows, before: FloatArray, after: FloatArray) -> Gain:
    """Fall of the log loss from the log-odds ``before`` to ``after``.

    The rows of a cell count one by one, and only rows that some fold holds out; where rows belong to blocks, the
    standard error is that of block sums.
    """
    own = rows.evaluated
    before, after, weight, label, fold = before[own], after[own], rows.weight[own], rows.label[own], rows.fold[own]
    gain, square = gains_of_rows(before, after, weight, label)
    found = gain_of_rows(gain, square, float(weight.sum()), fold)
    of_fold = np.bincount(fold, weight)
    by_fold = (np.bincount(fold, gain) / np.maximum(of_fold, 1e-300))[of_fold > 0.0]
    found = replace(found, by_fold=tuple(by_fold.tolist()))
    if rows.blocks is None:
        return found
    return replace(found, standard_error=standard_error_of_gain(gain, weight, rows.blocks))


def gains_of_rows(
    before: FloatArray, after: FloatArray, weight: FloatArray, label: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Summed log-likelihood gain and summed squared gain of the rows that each part stands for."""
    if_positive = np.logaddexp(0.0, -before) - np.logaddexp(0.0, -after)
    if_negative = np.logaddexp(0.0, before) - np.logaddexp(0.0, after)
    negatives = weight - label
    gain = label * if_positive + negatives * if_negative
    return gain, label * if_positive**2 + negatives * if_negative**2


def significance(t: float, n_blocks: int) -> float:
    """What ``t`` standard errors, estimated from so many blocks, are worth in known ones.

    Student's t as a normal deviate (Wallace's approximation); of few blocks only what lies beyond ``SELECTION``, as the
    whole of it would ask for more than any correction can show.

    >>> round(significance(4.0, 10), 2), round(significance(4.0, 20), 2), round(significance(4.0, 1000), 2)
    (3.62, 3.36, 3.98)
    """
    lifted = SELECTION if n_blocks < FEW_BLOCKS else 0.0
    freedom, beyond = max(n_blocks - 1, 1), t - lifted
    size = (8.0 * freedom + 1.0) / (8.0 * freedom + 3.0) * np.sqrt(freedom * np.log1p(beyond * beyond / freedom))
    return lifted + float(np.copysign(size, beyond))


@dataclass(frozen=True)
class Scale:
    """The factor at which a correction fits held-out rows best, and its standard error from sums of blocks.

    Few blocks may agree by chance, and their sums then vary too little. ``expected_error`` follows instead from the
    noise of the labels and from a shock that the rows of a block share.
    """

    value: float
    standard_error: float
    expected_error: float

    @property
    def z(self) -> float:
        """The factor in standard errors; 0 where there is no correction."""
        return self.value / self.standard_error if self.standard_error > 0.0 else 0.0

    def significance(self, n_blocks: int) -> float:
        """The factor in standard errors; of few blocks in the larger of the two, allowing for choices made on them."""
        found = significance(self.z, n_blocks)
        if n_blocks >= FEW_BLOCKS:
            return found
        expected = self.value / self.expected_error if self.expected_error > 0.0 else 0.0
        return min(found, expected - SELECTION)

    @property
    def shrunk(self) -> float:
        """What to multiply the correction by: α(1 − (se/α)²), at most 1 and at least 0."""
        return 0.0 if self.z <= 1.0 else min(self.value, 1.0) * (1.0 - 1.0 / self.z**2)


NO_CORRECTION = Scale(0.0, 0.0, 0.0)


def scale_of(
    before: FloatArray,
    correction: FloatArray,
    weight: FloatArray,
    label: FloatArray,
    blocks: RowBlocks,
    block_weight: FloatArray,
) -> Scale:
    """Logistic regression of held-out labels on their correction alone, beside the log-odds ``before``, by Newton.

    Rows count by the weight of their block. The standard error is the sandwich estimate from scores summed by block, or
    by group where rows have both and that is larger.
    """
    own = blocks.evaluated
    block = blocks.number[own]
    before, correction, weight, label = before[own], correction[own], weight[own], label[own]
    weight, positives = weight * block_weight[block], label * block_weight[block]
    if not np.any(correction):
        return NO_CORRECTION

    def slopes(scale: float) -> tuple[float, float]:
        q = sigmoid(before + scale * correction)
        curvature = float(np.sum(weight * correction**2 * q * (1.0 - q)))
        return float(np.sum(correction * (positives - weight * q))), curvature

    def moments(scale: float) -> BlockMoments:
        q = sigmoid(before + scale * correction)
        residual, variance = positives - weight * q, weight * q * (1.0 - q)
        found = (correction * residual, residual, variance, correction * variance)
        by_group = None if blocks.group is None else np.bincount(blocks.group[own], found[0]).astype(np.float64)
        sums = [np.bincount(block, values, len(block_weight)).astype(np.float64) for values in found]
        return BlockMoments(*sums)._replace(by_group=by_group)

    return fitted_scale(slopes, moments, in_order=blocks.in_order)


class BlockMoments(NamedTuple):
    """Sums by block of c·r, r, v and c·v, with the correction c, the residual r and its variance v of each row.

    ``by_group``: sums of c·r by group, where rows have blocks of time and groups.
    """

    score: FloatArray
    residual: FloatArray
    variance: FloatArray
    shared: FloatArray
    by_group: FloatArray | None = None


def fitted_scale(
    slopes: Callable[[float], tuple[float, float]], moments: Callable[[float], BlockMoments], *, in_order: bool
) -> Scale:
    """The scale by Newton's method, from gradient and curvature (``slopes``) at a scale and the ``moments`` at it."""
    scale = 0.0
    for _ in range(_NEWTON_STEPS):
        gradient, curvature = slopes(scale)
        if curvature <= 0.0:
            return NO_CORRECTION
        change = gradient / curvature
        scale += float(np.clip(change, -_LARGEST_CHANGE, _LARGEST_CHANGE))
        if abs(change) < _SMALL:
            break
    found = moments(scale)
    error = error_of_total(found.score, in_order=in_order)
    if found.by_group is not None:
        error = max(error, error_of_total(found.by_group, in_order=False))
    _, shock_variance = intercept_and_variance(found.residual, found.variance)
    shared = _largest_variance(shock_variance, len(found.score)) * float(np.sum(found.shared**2))
    return Scale(scale, error / curvature, float(np.sqrt(curvature + shared)) / curvature)


def _largest_variance(variance: float, n_blocks: int) -> float:
    """Upper 95 % limit of a variance estimated from so many blocks (χ² by Wilson and Hilferty's approximation)."""
    freedom = max(n_blocks - 1, 1)
    spread = 2.0 / (9.0 * freedom)
    return variance / max(1.0 - spread - 1.645 * float(np.sqrt(spread)), _SMALL) ** 3


def standard_error_of_gain(gain: FloatArray, weight: FloatArray, blocks: RowBlocks) -> float:
    """Standard error of the mean gain of held-out rows: of blocks, or of groups beside them where that is larger."""
    own = blocks.evaluated
    error = standard_error_of_blocks(gain, weight, blocks.number[own], in_order=blocks.in_order)
    if blocks.group is None:
        return error
    return max(error, standard_error_of_blocks(gain, weight, blocks.group[own], in_order=False))


def standard_error_of_blocks(gain: FloatArray, weight: FloatArray, block: BlockNumbers, *, in_order: bool) -> float:
    """Standard error of a mean gain from its sums over blocks."""
    mean = float(np.sum(gain) / np.sum(weight))
    sums = np.bincount(block, gain - mean * weight).astype(np.float64)
    return error_of_total(sums, in_order=in_order) / float(np.sum(weight))


def significant_scale(rows: BinnedRows, before: FloatArray, after: FloatArray, least: float) -> float:
    """Share of the held-out correction from ``before`` to ``after`` to keep; 0 unless it is significant.

    All blocks together must tell the scale from zero by ``least`` standard errors; recent ones decide how large it is.
    """
    blocks = rows.blocks
    if blocks is None:
        raise ValueError("independent rows are evaluated by their Gain")

    def scale(block_weight: FloatArray) -> Scale:
        return scale_of(before, after - before, rows.weight, rows.label, blocks, block_weight)

    return kept_scale(scale, blocks, blocks.n_evaluated, least)


def kept_scale(scale: Callable[[FloatArray], Scale], blocks: RowBlocks, n_evaluated: int, least: float) -> float:
    """What is kept by the ``scale`` that blocks of some weights show; 0 unless it is significant by equal weights."""
    if scale(np.ones(len(blocks))).significance(n_evaluated) < least:
        return 0.0
    return scale(blocks.weight).shrunk


def identifying_time(rows: BinnedRows, n_scores: int = 1) -> tuple[int, ...]:
    """Features, but the first ``n_scores``, whose distribution differs between the stretches of time."""
    if rows.blocks is None or not rows.blocks.in_order:
        return ()
    distance = time_distances(rows.codes, rows.weight, rows.fold, rows.n_codes)
    return tuple(int(j) for j in rows.usable if j >= n_scores and distance[j] > IDENTIFIES_TIME)


def time_distances(
    codes: CodeMatrix, weight: FloatArray, fold: npt.NDArray[np.uint8], n_codes: Sequence[int]
) -> FloatArray:
    """Of each feature the mean total variation between its distribution in one stretch of time and in the others.

    1 means that its value gives the stretch away: the feature identifies the time.
    """
    n_folds = int(fold.max()) + 1
    return np.array(
        [mean_distance(weight_by_fold(codes[:, j], weight, fold, n_folds, n)) for j, n in enumerate(n_codes)]
    )


def weight_by_fold(
    code: npt.NDArray[np.unsignedinteger[Any]],
    weight: FloatArray,
    fold: npt.NDArray[np.uint8],
    n_folds: int,
    n_codes: int,
) -> FloatArray:
    """Weight of each code of a feature in each fold."""
    cell = fold.astype(np.intp) * n_codes + code
    return np.bincount(cell, weight, n_folds * n_codes).reshape(n_folds, n_codes).astype(np.float64)


def mean_distance(inside: FloatArray) -> float:
    """Mean total variation between the distribution in one fold and in the others, from the weight of each code."""
    outside = inside.sum(axis=0) - inside
    share_inside = inside / inside.sum(axis=1, keepdims=True)
    share_outside = outside / outside.sum(axis=1, keepdims=True)
    return float(0.5 * np.abs(share_inside - share_outside).sum(axis=1).mean())
