"""The default preset: cross-fitted ensembles are averaged, shrunk by their evidence, and distilled into a smaller form.

Held-out rows decide the number of trees; where they show no significant gain the model is the identity. The folds'
ensembles are averaged in log-odds and shrunk by the uncertainty of their gain.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from mbct.model.bins import CodeMatrix
from mbct.model.ensemble import sum_trees
from mbct.model.tree import CalibrationTree, FitTrace, RoundRecord, n_rules
from mbct.stats.probabilities import centring_shift
from mbct.training.binned_rows import BinnedRows, make_distillation_set, split_cells
from mbct.training.block_recalibration import shift_beside
from mbct.training.boosting import BoostingOptions, OnRound
from mbct.training.cells import Cells
from mbct.training.distillation import (
    COMPACT,
    LAST_RESORT,
    RULES,
    SMALLEST,
    TABLES,
    DistillationOptions,
    DistilledTrees,
    Stage,
    distill,
    is_small,
)
from mbct.training.evidence import (
    SIGNIFICANT_GAIN,
    SIGNIFICANT_TREES,
    Gain,
    held_out_gain,
    identifying_time,
    significance,
    significant_scale,
)
from mbct.training.folds import BlockOptions
from mbct.training.grower import with_sums
from mbct.training.offsets import Offsets, offset_trees, significant_recalibration, strongest
from mbct.training.tree_size import Ensembles, best_ensembles
from mbct.training.value_offsets import refitted
from mbct.validation import FloatArray

if TYPE_CHECKING:
    from mbct.training.trainer import Constraints

_FEW_TREES = 32
"""An ensemble of no more trees, all of them small, needs no smaller form."""
_MOST_TO_SHIP = 10_000
"""Rules of an ensemble that can be shipped as it is: engines compile no more of them as SQL."""
_SHARED_LEAVES = 8
"""Trees of the first stage, so many times, could have as many leaves together as the ensemble."""
_LEAST_OF_TREE = 3
"""Rules of the smallest tree: two leaves, and rows that reach neither."""
_MOST_OFFSET_GROUPS = 64
"""Leaves of an offset that stays beside tables."""
_TABLE_LEAVES = 4
"""Leaves of a table for each leaf of a tree: its look-up costs the same however many it has."""
_SYNTHETIC_SHARE = 3
"""Rows of a distillation set, real and synthetic, for each real one where rows belong to blocks."""
_ENOUGH_CELLS, _MOST_CELLS = 200_000, 400_000
"""Rows of a distillation set at least, and real ones at most."""
_MOST_COPIES = 20
"""Rows of a distillation set for each real one, at most."""


RECENTRE_ON = 50_000
"""Rows on which the mean prediction of the folds is matched."""

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
    gain = held_out_gain(rows, rows.log_odds, found.held_out)
    if gain.shrinkage == 0.0:
        # A logit recalibration may be significant where trees are not: it has two parameters only.
        steps = significant_recalibration(rows)
        line = () if steps is None else offset_trees((0,), steps, 0.0, rows)
        # What was tried and dropped has gained nothing: the gain is that of the line, or none.
        start = None if steps is None else found.start
        after = rows.log_odds if start is None or start.features != (0,) else start.held_out(rows)
        gain = held_out_gain(rows, rows.log_odds, after)
        gain = replace(gain, by_feature=(gain.value, *np.zeros(len(ordered) - 1).tolist()))
        return CrossFittedModel(tuple(with_sums(cells, line)), (), trace_of(found), gain)
    gain = replace(gain, by_feature=found.gain_by_feature(rows))
    offsets, grown = _mean_of_folds(found, gain.shrinkage, gain.shrinkage, rows, cells, options)
    return CrossFittedModel(offsets, grown, trace_of(found), gain)


def _fit_blocks(
    rows: BinnedRows,
    cells: Cells,
    options: BoostingOptions,
    block_options: BlockOptions,
    n_threads: int,
    on_round: OnRound,
) -> CrossFittedModel:
    """The ensemble of cells with blocks: offsets have been shrunk before, trees are by their scale."""
    excluded = identifying_time(rows)
    if not block_options.keep_all:
        rows = replace(rows, usable=np.setdiff1d(rows.usable, excluded))
    found = best_ensembles(rows, options, n_threads, on_round)
    before = rows.log_odds if found.start is None else found.start.held_out(rows)
    held_out = found.held_out
    shrinkage = _tree_shrinkage(rows, before, held_out)
    after = before + shrinkage * (held_out - before)
    grown: Trees = ()
    if shrinkage > 0.0:
        shift, moved = shift_beside(rows, after)
        offsets, grown = _mean_of_folds(found, 1.0, shrinkage, rows, cells, options, shift)
        after = after + moved
    else:
        line = () if found.start is None else _offsets_on_all(found.start, 1.0, rows, ())
        offsets = tuple(with_sums(cells, line))
    gain = held_out_gain(rows, rows.log_odds, after)
    gain = replace(gain, by_feature=found.gain_by_feature(rows, with_trees=shrinkage > 0.0))
    return CrossFittedModel(offsets, grown, trace_of(found), gain, excluded)


def _tree_shrinkage(rows: BinnedRows, before: FloatArray, held_out: FloatArray) -> float:
    """Share of the trees' correction to keep: 0 unless its scale and the gain at that scale are significant.

    A correction that overshoots may gain little as it is and much where it is shrunk.
    """
    kept = significant_scale(rows, before, held_out, SIGNIFICANT_TREES)
    if kept == 0.0:
        return 0.0
    gain = held_out_gain(rows, before, before + kept * (held_out - before))
    n_blocks = 1 if rows.blocks is None else rows.blocks.n_evaluated
    if gain.value <= 0.0 or significance(gain.value / gain.standard_error, n_blocks) < SIGNIFICANT_GAIN:
        return 0.0
    return kept


def trace_of(found: Ensembles) -> FitTrace:
    """How the held-out loss fell in each attempt."""
    rounds = tuple(RoundRecord(i, found.base, each.loss, each in found.chosen) for i, each in enumerate(found.tried))
    return FitTrace("log loss, held out", (), rounds)


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

    def on_all(start: Offsets, grown: Trees) -> Trees:
        return _offsets_on_all(start, offset_shrinkage, rows, grown)

    offsets, grown = mean_of_folds(found, offset_shrinkage, shrinkage, rows, options, on_all, shift)
    return tuple(with_sums(cells, offsets)), grown


def mean_of_folds(
    found: Ensembles,
    offset_shrinkage: float,
    shrinkage: float,
    rows: BinnedRows,
    options: BoostingOptions,
    offsets_on_all: Callable[[Offsets, Trees], Trees],
    shift: float,
) -> tuple[Trees, Trees]:
    """The same before the offsets' nodes have sums; ``rows`` may be the first of all, ``offsets_on_all`` refits."""
    n_trees = (options.trees_of_mean(each.n_trees, each.n_rounds) for each in found.chosen)
    by_fold = list(zip(*map(found.trees_by_fold, found.chosen, n_trees), strict=True))
    n_folds = len(by_fold)
    factor = shrinkage / (n_folds * len(found.chosen))
    folds = [tuple(tree.rescaled(factor) for trees in own for tree in trees) for own in by_fold]
    grown = tuple(tree for trees in folds for tree in trees)
    offsets = offsets_on_all(found.start, grown) if found.start is not None else ()
    codes = rows.codes[:RECENTRE_ON]
    steps = np.array([n_folds * sum_trees(trees, codes, rows.n_codes) for trees in folds])
    if found.start is not None:
        for fold, step in enumerate(steps):
            step += offset_shrinkage * found.start.step_of(fold, codes, rows.offset)
    total = sum_trees(offsets + grown, codes, rows.n_codes)
    centre = shift + centring_shift(rows.log_odds[: len(codes)], rows.weight[: len(codes)], steps, total)
    if offsets:
        return (offsets[0].shifted(centre), *offsets[1:]), grown
    return (), (grown[0].shifted(centre), *grown[1:])


def _offsets_on_all(offsets: Offsets, shrinkage: float, rows: BinnedRows, grown: Trees) -> Trees:
    """The offsets fitted on all rows beside the trees."""
    steps, constant = refitted(offsets, rows, lambda: sum_trees(grown, rows.codes, rows.n_codes))
    return offset_trees(offsets.features, shrinkage * steps, shrinkage * constant, rows)


@dataclass(frozen=True)
class ShippedTrees:
    """The trees of the model, the share of the full ensemble's correction that they keep, and that in words."""

    trees: tuple[CalibrationTree, ...]
    fidelity: float
    form: str


def distill_ensemble(
    model: CrossFittedModel,
    cells: Cells,
    ordered: tuple[bool, ...],
    constraints: "Constraints",
    advance: Callable[[int], None] = lambda _: None,
    usable: Sequence[int] | None = None,
    spare_trees: int = 0,
) -> ShippedTrees:
    """The ensemble compressed as ``constraints`` ask, and the share of its correction that is kept.

    Offsets are trees of one split already; the strongest of them stay as they are.
    """
    forms = _forms(model, constraints, spare_trees)
    whole = counted(model.trees)
    if not forms:
        return ShippedTrees(model.trees, 1.0, whole if model.trees else "no tree, predictions are left unchanged")

    def total_step(codes: CodeMatrix) -> FloatArray:
        return sum_trees(model.trees, codes, cells.n_codes)

    features = range(len(ordered)) if usable is None else usable
    # Rows to come differ from those at hand: synthetic ones keep the trees close to the ensemble there too.
    enough = _SYNTHETIC_SHARE * len(cells) if cells.block is not None else 0
    enough = min(max(enough, _ENOUGH_CELLS), _MOST_CELLS, _MOST_COPIES * len(cells))
    rows = make_distillation_set(cells, ordered, features, total_step, _MOST_CELLS, enough)
    for options in forms:
        found = _within_rules(cells, rows, options, advance, model.offsets)
        smaller = counted(found.trees)
        if found.is_enough:
            form = f"{smaller} keep {found.fidelity:.0%} of the correction of {whole}"
            return ShippedTrees(found.trees, found.fidelity, form)
    form = f"{whole}, the full ensemble: {smaller} would keep {found.fidelity:.0%} of its correction"
    return ShippedTrees(model.trees, 1.0, form)


def _within_rules(
    cells: Cells,
    rows: BinnedRows,
    options: DistillationOptions,
    advance: Callable[[int], None],
    offsets: Sequence[CalibrationTree],
) -> DistilledTrees:
    """Distilled trees with the sums of the cells; of fewer leaves where rows that stop at inner nodes add rules."""
    while True:
        most = min(options.growth.max_leaves, _MOST_OFFSET_GROUPS)
        found = distill(rows, options, advance, strongest(offsets, options.stages[0].n_trees // 2, most))
        trees = tuple(with_sums(cells, found.trees))
        excess = sum(map(n_rules, trees)) - options.most_rules
        if excess <= 0:
            return replace(found, trees=trees)
        fewer = max(len(tree.leaves) for tree in trees) - -(-excess // len(trees))
        options = options.with_most_leaves(max(fewer, 2))


def counted(trees: Sequence[CalibrationTree]) -> str:
    """How many trees and rules there are, in words."""
    return f"{len(trees):,} tree{'s' * (len(trees) != 1)} with {sum(map(n_rules, trees)):,} rules"


def _forms(model: CrossFittedModel, constraints: "Constraints", spare_trees: int) -> list[DistillationOptions]:
    """Smaller forms to try in their order; none where the ensemble is to stay as it is."""
    size, most_rules = constraints.model_size, constraints.max_rules
    allowed = most_rules is None or sum(map(n_rules, model.trees)) <= most_rules
    if not model.trees or (size == "full" and allowed):
        return []
    forms = {"auto": [SMALLEST, TABLES], "rules": [RULES], "compact": [COMPACT], "full": [TABLES]}[size]
    few = min(forms[-1].stages[-1].n_trees, _FEW_TREES)
    if allowed and is_small(model.trees, few - spare_trees):
        return []
    *others, last = (_within(each, model.trees, spare_trees, most_rules) for each in forms)
    return [*others, last if allowed and forms[-1] is TABLES else last.whatever_it_keeps()]


def _within(
    options: DistillationOptions, trees: Sequence[CalibrationTree], spare_trees: int, most_rules: int | None
) -> DistillationOptions:
    """A form with ``spare_trees`` left free, at most half the ensemble's trees, and no more rules than asked for."""
    most_rules = min(options.most_rules, most_rules or options.most_rules)
    too_large = sum(map(n_rules, trees)) > _MOST_TO_SHIP
    fewer = [s for s in options.stages if 2 * s.n_trees <= len(trees) and _LEAST_OF_TREE * s.n_trees <= most_rules]
    fewer = [s for s in fewer if too_large or s is not LAST_RESORT]
    stages = [Stage(s.n_trees - spare_trees, s.fidelity) for s in fewer or options.stages[:1]]
    total = sum(len(tree.leaves) for tree in trees)
    leaves = max(total // (_SHARED_LEAVES * options.stages[0].n_trees), COMPACT.growth.max_leaves)
    growth = options.growth._replace(max_leaves=min(options.growth.max_leaves, leaves))
    table_growth = options.table_growth._replace(
        max_leaves=min(options.table_growth.max_leaves, _TABLE_LEAVES * leaves)
    )
    found = replace(options, stages=tuple(stages), growth=growth, table_growth=table_growth, most_rules=most_rules)
    return found.with_most_leaves(max(most_rules // stages[-1].n_trees, 2))
