"""The default preset from cells to the trees that are shipped: honest growth, order, sampling and size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from mbct.errors import ParameterError
from mbct.model.bins import CodeMatrix
from mbct.model.masks import summed_steps
from mbct.model.trace import FitTrace
from mbct.model.tree import CalibrationTree, rounded
from mbct.stats.logodds import log_loss_of_logodds
from mbct.training.binned_rows import copies_in
from mbct.training.cells import Cells
from mbct.training.distillation import COMPACT, DistilOptions, distil, is_compact, smaller_than
from mbct.training.fold_mean import HonestModel, boost_honest
from mbct.training.monotone_step import rising_tree
from mbct.training.offsets import strongest
from mbct.training.options import HonestOptions
from mbct.validation import FloatArray

Order = Literal["free", "within-bin", "preserve"]
Size = Literal["auto", "full", "compact"]


@dataclass(frozen=True)
class Wishes:
    """What the model must keep to beside being right.

    ``order``: "free", "within-bin" (rows that differ in nothing but the score keep their order) or "preserve" (all rows
    do). ``negative_sampling_rate``: share of the negatives that the data still hold.
    """

    size: Size = "auto"
    order: Order = "free"
    negative_sampling_rate: float = 1.0

    def __post_init__(self) -> None:
        for name, choices in (("size", get_args(Size)), ("order", get_args(Order))):
            if getattr(self, name) not in choices:
                raise ParameterError(f"{name}={getattr(self, name)!r} must be one of {', '.join(map(repr, choices))}")
        if not 0.0 < self.negative_sampling_rate <= 1.0:
            raise ParameterError(
                f"negative_sampling_rate={self.negative_sampling_rate!r} must lie above 0 and at most at 1: "
                "the share of negatives kept"
            )


@dataclass(frozen=True)
class Grown:
    """The trees, how they were grown, and the share of the full ensemble's correction that they keep.

    ``copies``: the mass that stands for one row. The sums of the trees are divided by it, so that bounds count rows.
    """

    trees: tuple[CalibrationTree, ...]
    trace: FitTrace
    fidelity: float
    copies: float = 1.0


def grow_default(
    cells: Cells,
    ordered: tuple[bool, ...],
    options: HonestOptions,
    wishes: Wishes,
    n_threads: int,
    advance: Callable[[int], None] = lambda _: None,
) -> Grown:
    """Grow the default preset's trees on cells in canonical order; of weighted rows, mass is made to count rows."""
    copies = copies_in(cells)
    cells = cells.per(copies.per_row)
    shift = _sampling_shift(cells, wishes.negative_sampling_rate)
    start = cells.moved(shift) if shift else cells
    grower = _Grower(ordered, options, wishes.size, n_threads, advance, whole=not copies.alike)
    if wishes.order == "free":
        grown = grower.grow(start, range(len(ordered)))
    else:
        grown = _grow_in_order(grower, start, wishes.order)
    constant = shift + float(np.log(wishes.negative_sampling_rate))
    trees = grown.trees if constant == 0.0 else _moved(grown.trees, constant, start)
    return replace(grown, trees=trees, copies=copies.per_row)


@dataclass(frozen=True)
class _Grower:
    """Honest growth on some of the features, said again in few trees."""

    ordered: tuple[bool, ...]
    options: HonestOptions
    size: Size
    n_threads: int
    advance: Callable[[int], None]
    whole: bool

    def grow(self, cells: Cells, usable: Sequence[int], spare_trees: int = 0) -> Grown:
        """Trees that split by the ``usable`` features; ``spare_trees`` are left free of a compact model's eight."""
        advance = self.advance
        model = boost_honest(
            cells, self.ordered, self.options, self.n_threads, lambda _: advance(1), usable, whole=self.whole
        )
        size = "full" if self.size == "auto" and not self.options.distilled else self.size
        fewer, fidelity = in_fewer(model, cells, self.ordered, size, advance, usable, spare_trees)
        return Grown(fewer, model.trace, fidelity)


def in_fewer(
    model: HonestModel,
    cells: Cells,
    ordered: tuple[bool, ...],
    size: Size,
    advance: Callable[[int], None] = lambda _: None,
    usable: Sequence[int] | None = None,
    spare_trees: int = 0,
) -> tuple[tuple[CalibrationTree, ...], float]:
    """The ensemble said again as ``size`` asks, and the share of its correction that is kept.

    What was said before the trees is few trees already and stays as it is; a compact model keeps the strongest of it.
    """
    options = _distillation(model, size, spare_trees)
    if options is None:
        return model.trees, 1.0
    kept = model.effects
    if size == "compact":
        most = options.stages[-1]
        kept = strongest(model.effects, most // 2, options.growth.max_leaves)
        options = replace(options, stages=(most - len(kept),))

    def total_step(codes: CodeMatrix) -> FloatArray:
        return summed_steps(model.trees, codes, cells.n_codes)

    distilled = distil(cells, ordered, total_step, options, advance, usable, kept)
    if distilled.fidelity >= options.least_fidelity:
        return distilled.trees, distilled.fidelity
    return model.trees, 1.0


def _distillation(model: HonestModel, size: Size, spare_trees: int) -> DistilOptions | None:
    """How to say an ensemble again; None keeps it as it is."""
    most = COMPACT.stages[-1] - spare_trees
    if size == "full" or not model.trees:
        return None
    if size == "compact":
        return None if is_compact(model.trees, most) else replace(COMPACT, stages=(most,))
    return None if len(model.grown) <= most else smaller_than(sum(len(tree.leaves) for tree in model.grown))


def _grow_in_order(grower: _Grower, cells: Cells, order: Order) -> Grown:
    """First a rising step of the score alone; for "within-bin" then trees that do not look at the score."""
    full = replace(grower, size="full")
    alone = full.grow(cells, (0,))
    first = rising_tree(cells, alone.trees) if alone.trees else None
    trees = () if first is None else (first,)
    if order == "preserve" or len(grower.ordered) < 2:
        return Grown(trees, alone.trace, 1.0)
    others = grower.grow(
        cells.moved(summed_steps(trees, cells.codes, cells.n_codes)), range(1, len(grower.ordered)), len(trees)
    )
    rounds = tuple(replace(r, tree=i) for i, r in enumerate(alone.trace.rounds + others.trace.rounds))
    return Grown(trees + others.trees, replace(alone.trace, rounds=rounds), others.fidelity)


def _sampling_shift(cells: Cells, negative_sampling_rate: float) -> float:
    """Where the scores stand among sampled rows: 0 if they were learnt there, −log r if they mean the population.

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
