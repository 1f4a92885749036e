"""The cross-fitted ensemble of rows in shards: the stages of :mod:`mbct.training.default`, each a few passes.

Recalibration, offsets, boosting and evidence are those of rows in memory; here their sums come from all shards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mbct.model.tree import CalibrationTree
from mbct.training.block_intercepts import block_intercepts
from mbct.training.block_recalibration import SMALL_LINE
from mbct.training.boosting import BoostingOptions, CrossFittedBoosting, OnRound
from mbct.training.default import RECENTRE_ON, CrossFittedModel, mean_of_folds, trace_of
from mbct.training.evidence import OFFSETS_AHEAD, SIGNIFICANT_GAIN, SIGNIFICANT_LINE, SIGNIFICANT_TREES, significance
from mbct.training.grower import with_node_sums
from mbct.training.offsets import (
    DECIMALS,
    SCORE,
    LineSums,
    Offsets,
    answered_together,
    line_steps,
    newton_line,
    shrunk_line,
    standardized,
    trees_of_steps,
)
from mbct.training.sharded.boosting import OnDemand, ShardedBoosting
from mbct.training.sharded.evidence import (
    blocks_of,
    sharded_gain,
    sharded_identifying_time,
    sharded_scale,
    sharded_shift,
)
from mbct.training.sharded.rows import (
    ALL,
    Correction,
    ShardedRows,
    block_sums_of_steps,
    code_weights,
    line_sums_by_fold,
    losses,
    node_sums,
    score_sums,
    value_sums,
)
from mbct.training.tree_size import Ensembles, best_size
from mbct.training.value_offsets import NO_SPREAD, PASSES_ON_ALL, best_pass, improved_steps
from mbct.validation import FloatArray

Trees = tuple[CalibrationTree, ...]
_UNMOVED = Correction()


class ShardedEnsembles(Ensembles):
    """Ensembles whose folds grew together."""

    def trees_by_fold(self, found: CrossFittedBoosting[ShardedBoosting], n_trees: int) -> list[Trees]:
        """The first trees of each fold of one attempt."""
        return [tuple(trees[:n_trees]) for trees in found.folds[0].trees]

    @property
    def correction(self) -> Correction:
        """That of the best number of trees."""
        return _best_of(self.chosen[0])


def fit_sharded(
    rows: ShardedRows, weight: float, options: BoostingOptions, on_round: OnRound, *, keep_all: bool
) -> CrossFittedModel:
    """:func:`~mbct.training.default.fit_cross_fitted` of rows in shards, all of which count.

    ``keep_all``: features that identify the time are used like the others.
    """
    if rows.layout.blocks is not None:
        return _fit_blocks(rows, weight, options, on_round, keep_all=keep_all)
    found = _best_ensembles(rows, weight, options, on_round)
    gain = sharded_gain(rows, _UNMOVED, found.correction)
    head = rows.head(RECENTRE_ON)
    if gain.shrinkage > 0.0:
        gain = replace(gain, by_feature=found.gain_by_feature(head))
        return CrossFittedModel(
            *_mean_of_folds(rows, found, gain.shrinkage, gain.shrinkage, options), trace_of(found), gain
        )
    steps = _significant_line(rows)
    line = () if steps is None else _trees_of_steps(rows, (SCORE,), steps, 0.0)
    start = None if steps is None else found.start
    gain = sharded_gain(rows, _UNMOVED, _UNMOVED if start is None or start.features != (SCORE,) else Correction(start))
    gain = replace(gain, by_feature=(gain.value, *np.zeros(len(rows.layout.ordered) - 1).tolist()))
    return CrossFittedModel(_with_sums(rows, line), (), trace_of(found), gain)


def _fit_blocks(
    rows: ShardedRows, weight: float, options: BoostingOptions, on_round: OnRound, *, keep_all: bool
) -> CrossFittedModel:
    """The same where rows belong to blocks, as :func:`mbct.training.default._fit_blocks`."""
    excluded = sharded_identifying_time(rows)
    if not keep_all:
        usable = np.setdiff1d(rows.layout.usable, excluded)
        rows = ShardedRows(rows.shards, replace(rows.layout, usable=usable))
    found = _best_ensembles(rows, weight, options, on_round)
    before = Correction(found.start)
    shrinkage = sharded_scale(rows, before, found.correction, SIGNIFICANT_TREES)
    after = replace(found.correction, scale=shrinkage)
    if shrinkage > 0.0:
        blocks, gain = blocks_of(rows), sharded_gain(rows, before, after)
        if gain.value <= 0.0 or significance(gain.value / gain.standard_error, len(blocks)) < SIGNIFICANT_GAIN:
            shrinkage, after = 0.0, before
    grown: Trees = ()
    if shrinkage > 0.0:
        shift, by_fold = sharded_shift(rows, after)
        offsets, grown = _mean_of_folds(rows, found, 1.0, shrinkage, options, shift)
        after = replace(after, shift=by_fold)
    else:
        after = before
        offsets = _with_sums(rows, () if found.start is None else _offsets_on_all(rows, found.start, 1.0, ()))
    gain = sharded_gain(rows, _UNMOVED, after)
    gain = replace(gain, by_feature=found.gain_by_feature(rows.head(RECENTRE_ON), with_trees=shrinkage > 0.0))
    return CrossFittedModel(offsets, grown, trace_of(found), gain, excluded)


def _best_of(found: CrossFittedBoosting[ShardedBoosting]) -> Correction:
    return found.folds[0].correction(found.n_trees)


def _best_ensembles(rows: ShardedRows, weight: float, options: BoostingOptions, on_round: OnRound) -> ShardedEnsembles:
    """:func:`~mbct.training.tree_size.best_ensembles`, but for ranking on the rows that chose the cut."""

    def of_size(leaves: int, start: Offsets | None) -> CrossFittedBoosting[ShardedBoosting]:
        return CrossFittedBoosting(
            [ShardedBoosting(rows, options.tree(leaves, weight), options, start)], weight, options
        )

    pool, independent = OnDemand(), rows.layout.blocks is None
    start = _recalibration(rows, None) if independent else _block_recalibration(rows)
    offsets = _value_offsets(rows, weight) if independent else None
    first = of_size(options.leaves[0], start)
    passed_over: list[CrossFittedBoosting[ShardedBoosting]] = []
    if offsets is not None:
        offsets = _recalibration(rows, offsets) or offsets
        first.run(pool, on_round, until=options.look_after(weight))
        ahead = sharded_gain(rows, _best_of(first), Correction(offsets))
        if ahead.value > OFFSETS_AHEAD * ahead.standard_error:
            passed_over, start = [first], offsets
            first = of_size(options.leaves[0], start)
    best, tried = best_size(first, lambda leaves: of_size(leaves, start), options, weight, pool, on_round)
    base = rows.total(losses, _UNMOVED)[0] / weight
    return ShardedEnsembles((best,), passed_over + tried, start, base)


def _scores(rows: ShardedRows) -> FloatArray:
    return standardized(*rows.total(score_sums))


def _lines(rows: ShardedRows, scores: FloatArray, start: Correction, folds: Sequence[int]) -> list[tuple[float, float]]:
    """Shift and slope of each fold; where rows belong to blocks, of labels without the blocks' shocks."""
    blocks = rows.layout.blocks

    def shocks(steps: Mapping[int, FloatArray]) -> dict[int, FloatArray]:
        if blocks is None:
            return {}
        found = rows.total(block_sums_of_steps, steps, len(blocks))
        return {fold: block_intercepts(g, h)[1] for fold, (g, h) in zip(steps, found, strict=True)}

    def answer(requests: dict[int, FloatArray]) -> dict[int, LineSums]:
        steps = {folds[k]: step for k, step in requests.items()}
        found = rows.total(line_sums_by_fold, scores, start, steps, shocks(steps))
        return {k: tuple(sums) for k, sums in zip(requests, found, strict=True)}

    small = {} if blocks is None else {"small": SMALL_LINE}
    return answered_together([newton_line(scores, **small) for _ in folds], answer)


def _recalibration(rows: ShardedRows, start: Offsets | None) -> Offsets | None:
    """The folds' lines after ``start``; None where held-out rows do not gain."""
    layout = rows.layout
    if SCORE not in layout.usable:
        return None
    scores, folds = _scores(rows), range(layout.n_folds)
    lines = _lines(rows, scores, Correction(start), folds)
    steps = tuple(line_steps(*line, scores, int(layout.offset[-1])) for line in lines)
    found = Offsets((SCORE,), steps, (0.0,) * len(folds), ())
    found = found if start is None else start.and_then(found)
    before, after = rows.total(losses, Correction(start), Correction(found))
    return None if after >= before else found


def _significant_line(rows: ShardedRows) -> FloatArray | None:
    """The shrunken line fitted on all rows; None where it is not significant."""
    if SCORE not in rows.layout.usable:
        return None
    scores = _scores(rows)
    steps = line_steps(*_lines(rows, scores, _UNMOVED, [ALL])[0], scores, int(rows.layout.offset[-1]))
    line = Correction(Offsets((SCORE,), (steps,), (0.0,), ()), of_all=True)
    before, after = rows.total(losses, _UNMOVED, line)
    return shrunk_line(steps, before - after)


def _block_recalibration(rows: ShardedRows) -> Offsets | None:
    """The folds' shifts and slopes as held-out blocks show them; None where neither is significant."""
    layout = rows.layout
    if SCORE not in layout.usable:
        return None
    scores, folds = _scores(rows), range(layout.n_folds)
    lines = _lines(rows, scores, _UNMOVED, folds)

    def sloped(kept: float) -> Correction:
        steps = tuple(np.append(kept * slope * scores, nothing) for _, slope in lines)
        return Correction(Offsets((SCORE,), steps, (0.0,) * len(folds), ()))

    nothing = np.zeros(int(layout.offset[-1]) - len(scores))
    kept_slope = sharded_scale(rows, _UNMOVED, sloped(1.0), SIGNIFICANT_LINE)
    before = sloped(kept_slope)
    shifted = replace(before, shift=tuple(shift for shift, _ in lines))
    kept_shift = sharded_scale(rows, before, shifted, SIGNIFICANT_LINE)
    if kept_slope == kept_shift == 0.0:
        return None
    kept = (line_steps(kept_shift * a, kept_slope * b, scores, int(layout.offset[-1])) for a, b in lines)
    return Offsets((SCORE,), tuple(kept), (0.0,) * len(folds), ())


class _ValueOffsets:
    """Per-value offsets of several folds, fitted side by side beside their trees."""

    def __init__(self, rows: ShardedRows, start: Offsets, folds: Sequence[int], trees: tuple[Trees, ...] = ()):
        self.rows, self.folds, self.trees, self.features = rows, folds, trees, start.features
        self.steps = [steps.copy() for steps in start.steps]
        self.constants = list(start.constants)
        self.categories = [j for j in start.features if not rows.layout.ordered[j]]
        self.weights = [dict.fromkeys(self.categories, NO_SPREAD) for _ in folds]

    @property
    def offsets(self) -> Offsets:
        """Those that have been reached."""
        return Offsets(self.features, tuple(steps.copy() for steps in self.steps), tuple(self.constants), ())

    def improve(self) -> None:
        """One pass over all categories, each of them a pass over the shards."""
        offset = self.rows.layout.offset
        for j in self.categories:
            own = slice(offset[j], offset[j + 1])
            found = self.rows.total(value_sums, j, self.folds, Correction(self.offsets, self.trees))
            for k, (g, h) in enumerate(found):
                if np.any(h > 0.0):
                    steps, weights = self.steps[k], self.weights[k]
                    steps[own], centre, weights[j] = improved_steps(steps[own].copy(), g, h, weights[j])
                    self.constants[k] += centre


def _value_offsets(rows: ShardedRows, weight: float) -> Offsets | None:
    """The folds' offsets of categories at the best pass; None where held-out rows gain nothing."""
    layout = rows.layout
    features = tuple(int(j) for j in layout.usable if not layout.ordered[j])
    if not features:
        return None
    nothing = (np.zeros(layout.offset[-1]),) * layout.n_folds
    fit = _ValueOffsets(rows, Offsets(features, nothing, (0.0,) * layout.n_folds, ()), range(layout.n_folds))

    def held_out_loss() -> float:
        return float(rows.total(losses, Correction(fit.offsets))[0]) / weight

    return best_pass(fit.improve, held_out_loss, lambda: fit.offsets)


def _mean_of_folds(
    rows: ShardedRows,
    found: ShardedEnsembles,
    offset_shrinkage: float,
    shrinkage: float,
    options: BoostingOptions,
    shift: float = 0.0,
) -> tuple[Trees, Trees]:
    def on_all(start: Offsets, grown: Trees) -> Trees:
        return _offsets_on_all(rows, start, offset_shrinkage, grown)

    head = rows.head(RECENTRE_ON)
    offsets, grown = mean_of_folds(found, offset_shrinkage, shrinkage, head, options, on_all, shift)
    return _with_sums(rows, offsets), grown


def _offsets_on_all(rows: ShardedRows, start: Offsets, shrinkage: float, grown: Trees) -> Trees:
    """The mean of the folds' offsets, those of categories fitted again on all rows beside the trees."""
    steps, constant = np.asarray(np.mean(start.steps, axis=0)), float(np.mean(start.constants))
    if any(not rows.layout.ordered[j] for j in start.features):
        mean = Offsets(start.features, (np.round(steps, DECIMALS),), (constant,), ())
        fit = _ValueOffsets(rows, mean, [ALL], (grown,) if grown else ())
        for _ in range(PASSES_ON_ALL):
            fit.improve()
        steps, constant = fit.steps[0], fit.constants[0]
    return _trees_of_steps(rows, start.features, shrinkage * steps, shrinkage * constant)


def _trees_of_steps(rows: ShardedRows, features: tuple[int, ...], steps: FloatArray, constant: float) -> Trees:
    def weight(j: int) -> FloatArray:
        return np.asarray(rows.total(code_weights, j, rows.layout.n_folds)[0].sum(axis=0))

    return trees_of_steps(features, steps, constant, rows.layout.offset, weight)


def _with_sums(rows: ShardedRows, trees: Trees) -> Trees:
    """The trees with the sums of all rows in each node."""
    found = rows.total(node_sums, trees) if trees else ()
    return tuple(with_node_sums(tree, sums) for tree, sums in zip(trees, found, strict=True))
