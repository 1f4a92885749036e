"""The paper's boosting, as printed: trees are added while the loss over all data falls."""

from dataclasses import dataclass, replace

import numpy as np

from mbct.errors import DataError, ParameterError
from mbct.model.tree import CalibrationTree, FitTrace, RoundRecord, SplitRecord
from mbct.stats.multi_view import mvce_of_sums
from mbct.stats.theorem import min_bin_size
from mbct.training.cells import Cells
from mbct.training.folds import BlockOptions, row_blocks
from mbct.training.paper.histogram import COUNT, LABEL, PRED, PRED2, PRED_LABEL, CellSource
from mbct.training.paper.levelwise import GrownSplit, LevelSource, PaperGrowth, SplitEvaluator, grow_level_wise
from mbct.training.paper.losses import RowLossEvaluator, row_loss
from mbct.training.paper.multiway import NORM
from mbct.validation import FloatArray

_VALIDATION_FOLDS = 5  # One of five stretches of blocks is held out


@dataclass(frozen=True)
class PaperOptions:
    """Hyper-parameters under their names in the paper's Section 5.1.

    ``min_bin_size`` is β: a number of rows (the paper used 800, 1000 and 2000), or "bound" for the inequality
    (mbct_app_c) with ``max_relative_error`` e and ``alpha`` α. The loss uses bins of half that size. ``validate``:
    None stops as printed, on the training rows; "blocks" where the loss of held-out blocks stops falling.
    """

    max_trees: int = 8
    max_depth: int = 5
    min_bin_size: float | str = 1000
    loss: str = "mvce"
    alpha: float = 0.05
    max_relative_error: float = 0.1
    validate: str | None = None

    def __post_init__(self) -> None:
        for name in ("max_trees", "max_depth"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ParameterError(f"{name}={value!r} must be a whole number of at least 1")
        if self.min_bin_size != "bound" and not (isinstance(self.min_bin_size, int | float) and self.min_bin_size >= 2):
            raise ParameterError(f"min_bin_size={self.min_bin_size!r} must be at least 2 rows, or 'bound'")
        if not 0.0 < self.alpha < 1.0:
            raise ParameterError(f"alpha={self.alpha!r} must lie between 0 and 1")
        if not self.max_relative_error > 0.0:
            raise ParameterError(f"max_relative_error={self.max_relative_error!r} must be above 0")
        if self.validate not in (None, "blocks"):
            raise ParameterError(f"validate={self.validate!r} must be None or 'blocks'")
        row_loss(self.loss)

    def growth(self, count: float, label: float) -> PaperGrowth:
        """Stopping rules for data with ``count`` rows and ``label`` positives."""
        if isinstance(self.min_bin_size, str):
            size = float(min_bin_size(label / count, count, self.max_relative_error, self.alpha))
        else:
            size = float(self.min_bin_size)
        return PaperGrowth(self.max_depth, size, size / 2.0)


def boost_cells(
    cells: Cells, names: tuple[str, ...], options: PaperOptions, n_threads: int, _: BlockOptions | None = None
) -> tuple[tuple[CalibrationTree, ...], FitTrace]:
    """Grow the paper's ensemble on cells in memory."""
    loss = row_loss(options.loss)
    source = CellSource(cells, n_threads)
    total = cells.total
    growth = options.growth(float(total.count), float(total.label))
    evaluator = None if loss is None else RowLossEvaluator(source, loss, growth.bin_size)
    return boost(source, names, options, growth, evaluator)


def boost_validated(
    cells: Cells, names: tuple[str, ...], options: PaperOptions, n_threads: int, block_options: BlockOptions
) -> tuple[tuple[CalibrationTree, ...], FitTrace]:
    """Grow as many trees on all cells as lower the squared error of held-out blocks: the last fifth of them in time.

    Of groups a fifth at random is held out. MVCE over shuffled views is the squared error and the bias in one number
    (see :mod:`mbct.stats.multi_view`); held out, the squared error alone decides.
    """
    if cells.block is None:
        raise DataError("validate='blocks' needs blocks: pass time=… or groups=…")
    blocks = row_blocks(cells.block, cells.sums.count, _VALIDATION_FOLDS, 0, block_options)
    last = int(blocks.fold.max())
    held_out = cells.select(blocks.held_out(last))
    trees, trace = boost_cells(cells.select(blocks.trained_on(last)), names, options, n_threads)
    multiplier = np.ones(len(held_out))
    errors = [_squared_error(held_out, multiplier)]
    for tree in trees:
        multiplier *= tree.leaf_value[tree.apply(held_out.codes)]
        errors.append(_squared_error(held_out, multiplier))
    best = int(np.argmin(errors))
    if best == 0:
        return (), replace(trace, splits=(), rounds=tuple(replace(r, kept=False) for r in trace.rounds))
    return boost_cells(cells, names, replace(options, max_trees=best), n_threads)


def _squared_error(cells: Cells, multiplier: FloatArray) -> float:
    """Σ(y − k·p)² of the rows of cells."""
    sums = cells.sums
    return float(np.sum(multiplier**2 * sums.pred2 - 2.0 * multiplier * sums.pred_label + sums.label))


def boost(
    source: LevelSource,
    names: tuple[str, ...],
    options: PaperOptions,
    growth: PaperGrowth,
    evaluator: SplitEvaluator | None = None,
) -> tuple[tuple[CalibrationTree, ...], FitTrace]:
    """Add trees while the global loss falls, at most ``max_trees``; the one that does not help is dropped."""
    trees: list[CalibrationTree] = []
    splits: list[SplitRecord] = []
    rounds: list[RoundRecord] = []
    before = evaluator.node_loss(0, 1.0) if evaluator is not None else _loss_unchanged(source, growth)
    for number in range(options.max_trees):
        grown: list[GrownSplit] = []
        tree, after = grow_level_wise(source, growth, evaluator, grown.append)
        kept = after < before * (1.0 - 1e-11)
        rounds.append(RoundRecord(number, before, after, kept))
        if not kept:
            break
        splits.extend(SplitRecord(number, g.node, g.depth, names[g.feature], *g[3:]) for g in grown)
        trees.append(tree)
        source.multiply(tree.leaf_value)
        before = after
    return tuple(trees), FitTrace(options.loss, tuple(splits), tuple(rounds))


def _loss_unchanged(source: LevelSource, growth: PaperGrowth) -> float:
    """Closed-form MVCE of the predictions as they came."""
    sums = source.level_sums([0])[0, : source.n_codes[0]].sum(axis=0)
    squared = sums[PRED2] - 2.0 * sums[PRED_LABEL] + sums[LABEL]
    return mvce_of_sums(sums[COUNT], sums[PRED] - sums[LABEL], squared, growth.bin_size, NORM)
