"""A monotone step of the score: the part of a rank-preserving model that looks at the score alone.

Inside a bin of the score every prediction moves by one step on the log-odds, so their order is kept; from bin to bin it
is kept if and only if the steps do not fall. Such a map can spread scores apart, never push them together.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mbct.model.ensemble import sum_trees
from mbct.model.tree import STOP, CalibrationTree, rounded
from mbct.stats.divisions import pooled_blocks
from mbct.stats.probabilities import sigmoid
from mbct.training.cells import Cells
from mbct.validation import FloatArray

if TYPE_CHECKING:
    from mbct.training.trainer import Constraints, TrainingResult

_MOST_BINS = 32  # Bins of the step: as many as a compact tree has leaves


def train_monotone(
    train: "Callable[..., TrainingResult]", cells: Cells, constraints: "Constraints"
) -> "TrainingResult":
    """First a monotone step of the score alone; for "within-bin" then trees that do not look at the score."""
    alone = train(cells, (0,), replace(constraints, model_size="full", max_rules=None))
    first = monotone_tree(cells, alone.model.trees) if alone.model.trees else None
    trees = () if first is None else (first,)
    n_features = len(cells.n_codes)
    if constraints.rank_preservation == "preserve" or n_features < 2:
        return alone.with_trees(trees)
    moved = cells.moved(sum_trees(trees, cells.codes, cells.n_codes))
    others = train(moved, range(1, n_features), constraints, len(trees))
    rounds = tuple(replace(r, tree=i) for i, r in enumerate(alone.trace.rounds + others.trace.rounds))
    return replace(others.with_trees(trees + others.model.trees), trace=replace(alone.trace, rounds=rounds))


def monotone_tree(cells: Cells, trees: tuple[CalibrationTree, ...]) -> CalibrationTree | None:
    """One tree on the score whose steps are the isotonic fit to those of ``trees``; None where all rows share one bin.

    ``trees`` must look at the score alone, the first feature.
    """
    n_codes = cells.n_codes[0]
    codes = np.zeros((n_codes, len(cells.n_codes)), dtype=cells.codes.dtype)
    codes[:, 0] = np.arange(n_codes)
    step = np.sum([tree.leaf_value[tree.apply(codes)] for tree in trees], axis=0)
    q = sigmoid(cells.sums.logit / cells.sums.count)
    curvature = np.bincount(cells.codes[:, 0], cells.sums.count * q * (1.0 - q), n_codes).astype(np.float64)
    present = np.flatnonzero(curvature > 0.0)
    if len(present) < 2:
        return None
    starts = _blocks(curvature[present], step[present])
    block_step = np.add.reduceat((curvature * step)[present], starts) / np.add.reduceat(curvature[present], starts)
    # A code without rows goes with the block below it.
    block = np.maximum(np.searchsorted(present[starts], np.arange(n_codes), side="right") - 1, 0)
    return _tree(cells, block, rounded(block_step))


def _blocks(weight: FloatArray, step: FloatArray) -> npt.NDArray[np.int64]:
    """Starts of the blocks of equal step: the isotonic fit, then the nearest neighbours joined to at most 32."""
    lowest = float(step.min()) - 1.0
    starts = pooled_blocks(weight, weight * (step - lowest))
    while len(starts) > _MOST_BINS:
        total = np.add.reduceat(weight, starts)
        mean = np.add.reduceat(weight * step, starts) / total
        cost = total[1:] * total[:-1] / (total[1:] + total[:-1]) * np.diff(mean) ** 2
        starts = np.delete(starts, 1 + int(np.argmin(cost)))
    return starts


def _tree(cells: Cells, block: npt.NDArray[np.int64], step: FloatArray) -> CalibrationTree:
    """A root with one child for each block; unseen scores do not exist, the last two codes stay at the root."""
    table = (block + 1).astype(np.int32)
    table[-2:] = STOP
    feature = np.full(len(step) + 1, -1, dtype=np.int32)
    feature[0] = 0
    child = block[cells.codes[:, 0]]
    sums = [np.bincount(child, amount, len(step)) for amount in (cells.sums.count, cells.sums.label, cells.sums.pred)]
    count, label, pred = (rounded(np.concatenate([[s.sum()], s])) for s in sums)
    root_step = float(np.average(step, weights=count[1:]))
    steps = rounded(np.concatenate([[root_step], step]))
    return CalibrationTree(feature, np.full(len(feature), 0, dtype=np.int64), table, steps, count, label, pred)
