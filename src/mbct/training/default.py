"""The default preset from cells to the trees that are shipped: cross-fitting, rank preservation, sampling and size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from mbct.errors import ParameterError
from mbct.model.bins import CodeMatrix
from mbct.model.masks import summed_steps
from mbct.model.provenance import FitTrace
from mbct.model.rules import n_rules
from mbct.model.tree import CalibrationTree, rounded
from mbct.stats.logodds import log_loss_of_logodds
from mbct.training.binned_rows import BinnedRows, duplicates_in
from mbct.training.blocks import BlockOptions
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
    make_distillation_set,
)
from mbct.training.evidence import Gain
from mbct.training.fold_mean import CrossFittedModel, fit_cross_fitted
from mbct.training.gradients import with_sums
from mbct.training.monotone_step import monotone_tree
from mbct.training.offsets import strongest
from mbct.training.options import BoostingOptions
from mbct.validation import FloatArray

RankPreservation = Literal["free", "within-bin", "preserve"]
ModelSize = Literal["auto", "rules", "compact", "full"]


LEAST_RULES = 64
"""Smallest ``max_rules``."""
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


@dataclass(frozen=True)
class Constraints:
    """What the model must satisfy beside being accurate.

    ``rank_preservation``: "free", "within-bin" (rows that differ in nothing but the score keep their order) or
    "preserve" (all rows do). ``negative_sampling_rate``: share of the negatives that the data still hold.
    ``max_rules``: leaves of all trees together, at most.
    """

    model_size: ModelSize = "auto"
    rank_preservation: RankPreservation = "free"
    negative_sampling_rate: float = 1.0
    max_rules: int | None = None

    def __post_init__(self) -> None:
        for name, choices in (("model_size", get_args(ModelSize)), ("rank_preservation", get_args(RankPreservation))):
            if getattr(self, name) not in choices:
                raise ParameterError(f"{name}={getattr(self, name)!r} must be one of {', '.join(map(repr, choices))}")
        if not 0.0 < self.negative_sampling_rate <= 1.0:
            raise ParameterError(
                f"negative_sampling_rate={self.negative_sampling_rate!r} must lie above 0 and at most at 1: "
                "the share of negatives kept"
            )
        if self.max_rules is not None and self.max_rules < LEAST_RULES:
            raise ParameterError(f"max_rules={self.max_rules!r} must be at least {LEAST_RULES}")


@dataclass(frozen=True)
class ShippedTrees:
    """The trees of the model, the share of the full ensemble's correction that they keep, and that in words."""

    trees: tuple[CalibrationTree, ...]
    fidelity: float
    form: str


@dataclass(frozen=True)
class TrainedTrees(ShippedTrees):
    """What is shipped, and how it was grown.

    ``held_out`` and ``excluded``: see :class:`~mbct.training.fold_mean.CrossFittedModel`.
    """

    trace: FitTrace
    held_out: Gain
    excluded: tuple[int, ...] = ()


def train_default(
    cells: Cells,
    ordered: tuple[bool, ...],
    options: BoostingOptions,
    constraints: Constraints,
    n_threads: int,
    advance: Callable[[int], None] = lambda _: None,
    block_options: BlockOptions | None = None,
) -> TrainedTrees:
    """Train the default preset on cells in canonical order; weights are scaled so that they count rows."""
    duplicates = duplicates_in(cells)
    cells = cells.per(duplicates.per_row)
    shift = _sampling_shift(cells, constraints.negative_sampling_rate)
    start = cells.moved(shift) if shift else cells
    trainer = _Trainer(ordered, options, constraints, n_threads, advance, not duplicates.uniform, block_options)
    if constraints.rank_preservation == "free":
        trained = trainer.train(start, range(len(ordered)))
    else:
        trained = _train_monotone(trainer, start, constraints.rank_preservation)
    constant = shift + float(np.log(constraints.negative_sampling_rate))
    return trained if constant == 0.0 else replace(trained, trees=_moved(trained.trees, constant, start))


@dataclass(frozen=True)
class _Trainer:
    """Cross-fitted training on some of the features, then distillation."""

    ordered: tuple[bool, ...]
    options: BoostingOptions
    constraints: Constraints
    n_threads: int
    advance: Callable[[int], None]
    atomic: bool
    block_options: BlockOptions | None = None

    def train(self, cells: Cells, usable: Sequence[int], spare_trees: int = 0) -> TrainedTrees:
        """Trees that split by the ``usable`` features; ``spare_trees`` are left free of a compact model's eight."""
        advance = self.advance
        model = fit_cross_fitted(
            cells,
            self.ordered,
            self.options,
            self.n_threads,
            lambda _: advance(1),
            usable,
            atomic=self.atomic,
            block_options=self.block_options,
        )
        constraints = self.constraints
        if constraints.model_size == "auto" and not self.options.distilled:
            constraints = replace(constraints, model_size="full")
        if self.block_options is None or not self.block_options.keep_all:
            usable = [j for j in usable if j not in model.excluded]
        shipped = distill_ensemble(model, cells, self.ordered, constraints, advance, usable, spare_trees)
        return TrainedTrees(shipped.trees, shipped.fidelity, shipped.form, model.trace, model.held_out, model.excluded)


def distill_ensemble(
    model: CrossFittedModel,
    cells: Cells,
    ordered: tuple[bool, ...],
    constraints: Constraints,
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
        return summed_steps(model.trees, codes, cells.n_codes)

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


def _forms(model: CrossFittedModel, constraints: Constraints, spare_trees: int) -> list[DistillationOptions]:
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


def _train_monotone(trainer: _Trainer, cells: Cells, rank_preservation: RankPreservation) -> TrainedTrees:
    """First a monotone step of the score alone; for "within-bin" then trees that do not look at the score."""
    full = replace(trainer, constraints=replace(trainer.constraints, model_size="full", max_rules=None))
    alone = full.train(cells, (0,))
    first = monotone_tree(cells, alone.trees) if alone.trees else None
    trees = () if first is None else (first,)
    if rank_preservation == "preserve" or len(trainer.ordered) < 2:
        return replace(alone, trees=trees)
    others = trainer.train(
        cells.moved(summed_steps(trees, cells.codes, cells.n_codes)), range(1, len(trainer.ordered)), len(trees)
    )
    rounds = tuple(replace(r, tree=i) for i, r in enumerate(alone.trace.rounds + others.trace.rounds))
    return replace(others, trees=trees + others.trees, trace=replace(alone.trace, rounds=rounds))


def _sampling_shift(cells: Cells, negative_sampling_rate: float) -> float:
    """Shift of the scores among sampled rows: 0 if they were fitted there, −log r if they refer to the population.

    Keeping a share r of the negatives multiplies the odds by 1/r. The labels tell which of the two the scores fit.
    """
    if negative_sampling_rate == 1.0:
        return 0.0
    start, rate = cells.sums.logit / cells.sums.count, cells.sums.label / cells.sums.count
    shift = -float(np.log(negative_sampling_rate))

    def loss(moved: float) -> float:
        return float(np.sum(cells.sums.count * log_loss_of_logodds(start + moved, rate)))

    return shift if loss(shift) < loss(0.0) else 0.0


def _moved(trees: tuple[CalibrationTree, ...], constant: float, cells: Cells) -> tuple[CalibrationTree, ...]:
    """The trees with a constant added to every prediction's log-odds, by the first of them."""
    if trees:
        return (trees[0].shifted(constant), *trees[1:])
    total = cells.total
    count, label, pred = (rounded(np.array([value])) for value in (total.count, total.label, total.pred))
    leaf, nothing = np.array([-1], dtype=np.int32), np.empty(0, dtype=np.int32)
    step = rounded(np.array([constant]))
    return (CalibrationTree(leaf, np.zeros(1, dtype=np.int64), nothing, step, count, label, pred),)
