"""Honest boosting: one ensemble for each fold, grown side by side; rows left out decide how many trees there are.

The model is the mean of the fold ensembles in log-odds, shrunk by how sure the gain on left-out rows is: where nothing
is to be gained it is the identity.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from mbct.boosting.fold_growth import Parts, best_ensembles, held_out_gain, parts_of
from mbct.boosting.honest_options import HonestOptions
from mbct.boosting.masks import summed_steps
from mbct.boosting.trace import FitTrace, RoundRecord
from mbct.cells.cells import Cells
from mbct.stats.logodds import sigmoid
from mbct.tree.model import CalibrationTree, rounded

_RECENTRE_ON = 50_000
"""Parts of cells on which the mean of the folds is matched."""
_NEWTON_STEPS = 4


def boost_honest(
    cells: Cells,
    ordered: tuple[bool, ...],
    options: HonestOptions,
    n_threads: int,
    on_round: Callable[[int], None] = lambda _: None,
    usable: Sequence[int] | None = None,
) -> tuple[tuple[CalibrationTree, ...], FitTrace]:
    """The trees of the honest ensemble, their steps averaged over folds; none where nothing is to be gained.

    Cells must be in canonical order, which is a random one. ``usable`` numbers the features that trees may split by,
    all by default.
    """
    if len(cells) > options.most_cells:
        cells = cells.select(np.arange(options.most_cells))
    features = range(len(ordered)) if usable is None else usable
    parts = parts_of(cells, ordered, features, options.n_folds, options.seed)
    best, tried = best_ensembles(parts, options, n_threads, on_round)
    shrinkage = held_out_gain(parts, parts.log_odds, best.held_out).trust
    rounds = tuple(RoundRecord(i, found.base, found.loss, found is best) for i, found in enumerate(tried))
    trace = FitTrace("log loss, held out", (), rounds)
    if not best.n_trees or shrinkage == 0.0:
        return (), trace
    n_trees = min(round(best.n_trees * options.overshoot), best.n_rounds)
    factor = shrinkage / options.n_folds
    folds = [tuple(tree.rescaled(factor) for tree in fold.trees[:n_trees]) for fold in best.folds]
    return _recentred(folds, parts), trace


def _recentred(folds: list[tuple[CalibrationTree, ...]], parts: Parts) -> tuple[CalibrationTree, ...]:
    """All trees of the folds, with the first one's steps moved so that the mean prediction is that of the folds.

    The mean of log-odds is more extreme than the mean of probabilities; on rare events that is a bias downwards. The
    folds' own mean is matched on a sample, which needs no labels.
    """
    codes = parts.codes[:_RECENTRE_ON]
    count, start = parts.count[: len(codes)], parts.log_odds[: len(codes)]
    steps = np.array([summed_steps(trees, codes, np.diff(parts.offset).tolist()) for trees in folds])
    target = float(np.sum(count * sigmoid(start + len(folds) * steps).mean(axis=0)))
    centre, total = 0.0, start + steps.sum(axis=0)
    for _ in range(_NEWTON_STEPS):
        q = sigmoid(total + centre)
        centre += (target - float(np.sum(count * q))) / float(np.sum(count * q * (1.0 - q)))
    first, *others = (tree for trees in folds for tree in trees)
    return (replace(first, step=rounded(first.step + centre)), *others)
