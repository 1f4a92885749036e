"""Honest boosting: one ensemble for each fold, grown side by side; rows left out decide how many trees there are.

The model is the mean of the fold ensembles in log-odds, shrunk by how sure the gain on left-out rows is: where nothing
is to be gained it is the identity.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mbct.model.masks import summed_steps
from mbct.model.trace import FitTrace, RoundRecord
from mbct.model.tree import CalibrationTree
from mbct.stats.logodds import sigmoid
from mbct.training.binned_rows import Parts, held_out_gain, parts_of
from mbct.training.boosting import Ensembles, best_ensembles
from mbct.training.cells import Cells
from mbct.training.leaf_values import with_sums
from mbct.training.logit_recalibration import line_beyond_chance
from mbct.training.offsets import Effects, effect_trees
from mbct.training.options import HonestOptions
from mbct.training.value_offsets import refitted
from mbct.validation import FloatArray

_RECENTRE_ON = 50_000
"""Parts of cells on which the mean of the folds is matched."""
_NEWTON_STEPS = 4

Trees = tuple[CalibrationTree, ...]


@dataclass(frozen=True)
class HonestModel:
    """Trees of one split that hold the line and effects of single values, those grown after them, what was tried."""

    effects: Trees
    grown: Trees
    trace: FitTrace

    @property
    def trees(self) -> Trees:
        """All of them, in their order."""
        return self.effects + self.grown


def boost_honest(
    cells: Cells,
    ordered: tuple[bool, ...],
    options: HonestOptions,
    n_threads: int,
    on_round: Callable[[int], None] = lambda _: None,
    usable: Sequence[int] | None = None,
    *,
    whole: bool = False,
) -> HonestModel:
    """The honest ensemble, its steps averaged over folds; no tree where nothing is to be gained.

    Cells must be in canonical order, which is a random one. ``usable`` numbers the features that trees may split by,
    all by default. ``whole``: a cell is one row, whatever its mass.
    """
    if len(cells) > options.most_cells:
        cells = cells.select(np.arange(options.most_cells))
    features = range(len(ordered)) if usable is None else usable
    parts = parts_of(cells, ordered, features, options.n_folds, options.seed, whole=whole)
    found = best_ensembles(parts, options, n_threads, on_round)
    trust = held_out_gain(parts, parts.log_odds, found.best.held_out).trust
    rounds = tuple(RoundRecord(i, found.base, each.loss, each is found.best) for i, each in enumerate(found.tried))
    trace = FitTrace("log loss, held out", (), rounds)
    if trust == 0.0:
        return HonestModel(_line_alone(parts, cells), (), trace)
    return _mean_of_folds(found, trust, parts, cells, options, trace)


def _line_alone(parts: Parts, cells: Cells) -> Trees:
    """Where trees are not trusted, a line in the log-odds may still be told from chance: it has two numbers only."""
    sure = line_beyond_chance(parts)
    if sure is None:
        return ()
    return tuple(with_sums(cells, effect_trees((0,), sure.trust * sure.steps, 0.0, parts)))


def _mean_of_folds(
    found: Ensembles, trust: float, parts: Parts, cells: Cells, options: HonestOptions, trace: FitTrace
) -> HonestModel:
    """The mean of the folds' log-odds, with the first tree moved so that the mean prediction is that of the folds.

    The mean of log-odds is more extreme than the mean of probabilities; on rare events that is a bias downwards. The
    folds' own mean is matched on a sample, which needs no labels.
    """
    best, factor = found.best, trust / options.n_folds
    n_trees = min(round(best.n_trees * options.overshoot), best.n_rounds)
    folds = [tuple(tree.rescaled(factor) for tree in fold.trees[:n_trees]) for fold in best.folds]
    grown = tuple(tree for trees in folds for tree in trees)
    effects = _effects_on_all(found.start, trust, parts, grown) if found.start is not None else ()
    codes = parts.codes[:_RECENTRE_ON]
    n_codes = np.diff(parts.offset).tolist()
    steps = np.array([options.n_folds * summed_steps(trees, codes, n_codes) for trees in folds])
    if found.start is not None:
        for fold, step in enumerate(steps):
            step += trust * found.start.step_of(fold, codes, parts.offset)
    total = summed_steps(effects + grown, codes, n_codes)
    centre = _centre(parts.log_odds[: len(codes)], parts.count[: len(codes)], steps, total)
    if effects:
        return HonestModel(tuple(with_sums(cells, (effects[0].shifted(centre), *effects[1:]))), grown, trace)
    return HonestModel((), (grown[0].shifted(centre), *grown[1:]), trace)


def _effects_on_all(effects: Effects, trust: float, parts: Parts, grown: Trees) -> Trees:
    """What was said before the trees, fitted on all rows beside them."""
    steps, constant = refitted(effects, parts, summed_steps(grown, parts.codes, np.diff(parts.offset).tolist()))
    return effect_trees(effects.features, trust * steps, trust * constant, parts)


def _centre(start: FloatArray, count: FloatArray, steps: FloatArray, total: FloatArray) -> float:
    """What must be added to the log-odds ``start + total`` for the mean prediction of ``start + steps``."""
    target = float(np.sum(count * sigmoid(start + steps).mean(axis=0)))
    centre = 0.0
    for _ in range(_NEWTON_STEPS):
        q = sigmoid(start + total + centre)
        centre += (target - float(np.sum(count * q))) / float(np.sum(count * q * (1.0 - q)))
    return centre
