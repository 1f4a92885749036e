"""The mean of the folds: cross-fitted ensembles averaged in log-odds and shrunk by the uncertainty of their gain.

Held-out rows decide the number of trees; where they show no significant gain the model is the identity.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mbct.model.masks import summed_steps
from mbct.model.provenance import FitTrace, RoundRecord
from mbct.model.tree import CalibrationTree
from mbct.stats.logodds import sigmoid
from mbct.training.binned_rows import BinnedRows, split_cells
from mbct.training.blocks import BlockOptions, time_distances
from mbct.training.boosting import Ensembles, OnRound, best_ensembles
from mbct.training.cells import Cells
from mbct.training.evidence import (
    IDENTIFIES_TIME,
    SIGNIFICANT_GAIN,
    SIGNIFICANT_TREES,
    Gain,
    held_out_gain,
    significance,
    significant_scale,
)
from mbct.training.gradients import with_sums
from mbct.training.offsets import Offsets, offset_trees, refitted
from mbct.training.options import BoostingOptions
from mbct.training.recalibration import shift_beside, significant_fit
from mbct.validation import FloatArray

_RECENTRE_ON = 50_000  # Rows on which the mean prediction of the folds is matched
_NEWTON_STEPS = 4

Trees = tuple[CalibrationTree, ...]


@dataclass(frozen=True)
class CrossFittedModel:
    """Trees of one split that hold the offsets, the trees grown after them, and the trace of what was tried.

    ``held_out``: the gain of the shrunken correction on held-out rows. ``excluded``: features that identify the time.
    """

    offsets: Trees
    grown: Trees
    trace: FitTrace
    held_out: Gain
    excluded: tuple[int, ...] = ()

    @property
    def trees(self) -> Trees:
        """All of them, in their order."""
        return self.offsets + self.grown


def fit_cross_fitted(
    cells: Cells,
    ordered: tuple[bool, ...],
    options: BoostingOptions,
    n_threads: int,
    on_round: OnRound = lambda _: None,
    usable: Sequence[int] | None = None,
    *,
    atomic: bool = False,
    block_options: BlockOptions | None = None,
) -> CrossFittedModel:
    """The cross-fitted ensemble, averaged over folds; no tree where the held-out gain is not significant.

    Cells must be in canonical order, which is a random one. ``usable`` numbers the features that trees may split by,
    all by default. ``atomic``: a cell is one row, whatever its weight. Cells with blocks are split by them,
    as ``block_options`` say, and the evidence is that of blocks.
    """
    if len(cells) > options.most_cells:
        cells = cells.select(np.arange(options.most_cells))
    features = range(len(ordered)) if usable is None else usable
    block_options = block_options or BlockOptions()
    rows = split_cells(
        cells, ordered, features, options.n_folds, options.seed, atomic=atomic, block_options=block_options
    )
    if rows.blocks is not None:
        return _fit_blocks(rows, cells, options, block_options, n_threads, on_round)
    found = best_ensembles(rows, options, n_threads, on_round)
    gain = held_out_gain(rows, rows.log_odds, found.best.held_out)
    if gain.shrinkage == 0.0:
        return CrossFittedModel(_recalibration_alone(rows, cells), (), _trace(found), gain)
    offsets, grown = _mean_of_folds(found, gain.shrinkage, gain.shrinkage, rows, cells, options)
    return CrossFittedModel(offsets, grown, _trace(found), gain)


def _fit_blocks(
    rows: BinnedRows,
    cells: Cells,
    options: BoostingOptions,
    block_options: BlockOptions,
    n_threads: int,
    on_round: OnRound,
) -> CrossFittedModel:
    """The ensemble of cells with blocks: offsets have been shrunk before, trees are by their scale."""
    excluded = _identifying_time(rows, cells.n_codes) if block_options.kind == "time" else ()
    if not block_options.keep_all:
        rows = replace(rows, usable=np.setdiff1d(rows.usable, excluded))
    found = best_ensembles(rows, options, n_threads, on_round)
    before = rows.log_odds if found.start is None else found.start.held_out(rows)
    shrinkage = _tree_shrinkage(rows, before, found.best.held_out)
    after = before + shrinkage * (found.best.held_out - before)
    grown: Trees = ()
    if shrinkage > 0.0:
        shift, moved = shift_beside(rows, after)
        offsets, grown = _mean_of_folds(found, 1.0, shrinkage, rows, cells, options, shift)
        after = after + moved
    else:
        line = () if found.start is None else _offsets_on_all(found.start, 1.0, rows, ())
        offsets = tuple(with_sums(cells, line))
    gain = held_out_gain(rows, rows.log_odds, after)
    return CrossFittedModel(offsets, grown, _trace(found), gain, excluded)


def _tree_shrinkage(rows: BinnedRows, before: FloatArray, held_out: FloatArray) -> float:
    """Share of the trees' correction to keep: 0 unless its scale and the gain at that scale are significant.

    A correction that overshoots may gain little as it is and much where it is shrunk.
    """
    kept = significant_scale(rows, before, held_out, SIGNIFICANT_TREES)
    if kept == 0.0:
        return 0.0
    gain = held_out_gain(rows, before, before + kept * (held_out - before))
    n_blocks = 1 if rows.blocks is None else len(rows.blocks)
    if gain.value <= 0.0 or significance(gain.value / gain.standard_error, n_blocks) < SIGNIFICANT_GAIN:
        return 0.0
    return kept


def _identifying_time(rows: BinnedRows, n_codes: tuple[int, ...]) -> tuple[int, ...]:
    """Features, but the score, whose distribution differs between the stretches of time."""
    distance = time_distances(rows.codes, rows.weight, rows.fold, n_codes)
    return tuple(int(j) for j in rows.usable if j > 0 and distance[j] > IDENTIFIES_TIME)


def _trace(found: Ensembles) -> FitTrace:
    rounds = tuple(RoundRecord(i, found.base, each.loss, each is found.best) for i, each in enumerate(found.tried))
    return FitTrace("log loss, held out", (), rounds)


def _recalibration_alone(rows: BinnedRows, cells: Cells) -> Trees:
    """Where trees are not significant a logit recalibration may still be: it has two parameters only."""
    found = significant_fit(rows)
    if found is None:
        return ()
    return tuple(with_sums(cells, offset_trees((0,), found.shrinkage * found.steps, 0.0, rows)))


def _mean_of_folds(
    found: Ensembles,
    offset_shrinkage: float,
    shrinkage: float,
    rows: BinnedRows,
    cells: Cells,
    options: BoostingOptions,
    shift: float = 0.0,
) -> tuple[Trees, Trees]:
    """Offsets and trees of the mean of the folds' log-odds, moved so that the mean prediction is that of the folds.

    The mean of log-odds is more extreme than the mean of probabilities; on rare events that is a bias downwards. The
    folds' own mean is matched on a sample, which needs no labels. ``shift`` is added to all log-odds.
    """
    n_folds = len(found.best.folds)
    best, factor = found.best, shrinkage / n_folds
    n_trees = options.trees_of_mean(best.n_trees, best.n_rounds)
    folds = [tuple(tree.rescaled(factor) for tree in fold.trees[:n_trees]) for fold in best.folds]
    grown = tuple(tree for trees in folds for tree in trees)
    offsets = _offsets_on_all(found.start, offset_shrinkage, rows, grown) if found.start is not None else ()
    codes = rows.codes[:_RECENTRE_ON]
    steps = np.array([n_folds * summed_steps(trees, codes, rows.n_codes) for trees in folds])
    if found.start is not None:
        for fold, step in enumerate(steps):
            step += offset_shrinkage * found.start.step_of(fold, codes, rows.offset)
    total = summed_steps(offsets + grown, codes, rows.n_codes)
    centre = shift + _centre(rows.log_odds[: len(codes)], rows.weight[: len(codes)], steps, total)
    if offsets:
        return tuple(with_sums(cells, (offsets[0].shifted(centre), *offsets[1:]))), grown
    return (), (grown[0].shifted(centre), *grown[1:])


def _offsets_on_all(offsets: Offsets, shrinkage: float, rows: BinnedRows, grown: Trees) -> Trees:
    """The offsets fitted on all rows beside the trees."""
    steps, constant = refitted(offsets, rows, summed_steps(grown, rows.codes, rows.n_codes))
    return offset_trees(offsets.features, shrinkage * steps, shrinkage * constant, rows)


def _centre(start: FloatArray, weight: FloatArray, steps: FloatArray, total: FloatArray) -> float:
    """What must be added to the log-odds ``start + total`` for the mean prediction of ``start + steps``."""
    target = float(np.sum(weight * sigmoid(start + steps).mean(axis=0)))
    centre = 0.0
    for _ in range(_NEWTON_STEPS):
        q = sigmoid(start + total + centre)
        centre += (target - float(np.sum(weight * q))) / float(np.sum(weight * q * (1.0 - q)))
    return centre
