"""From cells and a configuration to a frozen model with all that is known of it, or to the gain of each feature."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mbct.model.bins import FeatureBins
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.provenance import FitTrace, RowFingerprint, fingerprint_of, fingerprint_of_sums
from mbct.model.tree import NODE_SUMS
from mbct.stats.scores import reorder_rate
from mbct.training.binned_rows import duplicates_in, split_cells
from mbct.training.blocks import BlockOptions
from mbct.training.boosting import best_ensembles
from mbct.training.cells import Cells
from mbct.training.default import Constraints, counted, train_default
from mbct.training.evidence import Gain, held_out_gain
from mbct.training.options import BoostingOptions, Preset
from mbct.training.paper.histogram import COUNT, LABEL, PRED
from mbct.training.paper.levelwise import LevelSource
from mbct.training.paper.trainer import PaperOptions, boost, boost_cells, boost_validated
from mbct.validation import FloatArray

_PAIRS_OF = 100_000  # Cells whose pairs tell the reorder rate


@dataclass(frozen=True)
class TrainingConfig:
    """A resolved preset, constraints on the model, how blocks become folds, the level of bounds, and threads."""

    preset: Preset
    constraints: Constraints
    block_options: BlockOptions
    alpha: float
    n_threads: int


@dataclass(frozen=True)
class TrainingResult:
    """The frozen model, how it was grown, by what its rows are known again, and what was measured on the way.

    ``fidelity``: share of the full ensemble's correction that the model keeps. ``form``: the model's size in words.
    ``held_out``: the gain on held-out rows; None for the paper's trees, which hold out nothing. ``excluded``: features
    left out because they identify the time. ``reorder_rate``: share of row pairs that change rank; None where the rows
    stayed in their engine.
    """

    model: CalibrationEnsemble
    trace: FitTrace
    rows: RowFingerprint
    fidelity: float = 1.0
    form: str = ""
    held_out: Gain | None = None
    excluded: tuple[str, ...] = ()
    reorder_rate: float | None = None


def train_cells(
    cells: Cells, bins: FeatureBins, config: TrainingConfig, advance: Callable[[int], None] = lambda _: None
) -> TrainingResult:
    """Train on cells in memory; those of preset "default" must be in canonical order."""
    empty = CalibrationEnsemble(bins.names[0], config.preset.link, bins, (), config.alpha)
    growth, rate = config.preset.growth, config.constraints.negative_sampling_rate
    if isinstance(growth, PaperOptions):
        grow = boost_cells if growth.validate is None else boost_validated
        trees, trace = grow(cells, bins.names, growth, config.n_threads, config.block_options)
        result = _paper_result(
            empty.with_trees(trees), trace, lambda: np.array([getattr(cells.total, n) for n in NODE_SUMS]), rate
        )
    else:
        result = _train_default(cells, empty, growth, config, advance)
    some = cells.select(np.arange(min(len(cells), _PAIRS_OF)))
    before = some.sums.pred / some.sums.count
    changed = reorder_rate(before, result.model.calibrate_codes(some.codes, before))
    return TrainingResult(**{**vars(result), "reorder_rate": changed})


def train_in_engine(
    source: LevelSource, bins: FeatureBins, config: TrainingConfig, weight: float, positives: float
) -> TrainingResult:
    """Train the paper's trees on rows that stay in their engine, which sums them once for each level of a tree."""
    growth = config.preset.growth
    if not isinstance(growth, PaperOptions):
        raise TypeError("only the paper's trees grow on rows that stay in the engine")
    trees, trace = boost(source, bins.names, growth, growth.growth(weight, positives))
    model = CalibrationEnsemble(bins.names[0], config.preset.link, bins, trees, config.alpha)
    rate = config.constraints.negative_sampling_rate
    return _paper_result(model, trace, lambda: _total(source, bins.n_codes[0]), rate)


def _train_default(
    cells: Cells,
    empty: CalibrationEnsemble,
    options: BoostingOptions,
    config: TrainingConfig,
    advance: Callable[[int], None],
) -> TrainingResult:
    bins, constraints = empty.bins, config.constraints
    ordered = tuple(feature.ordered for feature in bins)
    trained = train_default(cells, ordered, options, constraints, config.n_threads, advance, config.block_options)
    model = empty.with_trees(trained.trees)
    rows = fingerprint_of(cells.codes, cells.sums)
    excluded = tuple(bins.names[j] for j in trained.excluded)
    return TrainingResult(model, trained.trace, rows, trained.fidelity, trained.form, trained.held_out, excluded)


def _paper_result(
    model: CalibrationEnsemble, trace: FitTrace, total: Callable[[], FloatArray], rate: float
) -> TrainingResult:
    """With the sums of the first tree's root as fingerprint: rows that stay in their engine give no more."""
    first = model.trees[0] if model.trees else None
    sums = total() if first is None else np.array([getattr(first, name)[0] for name in NODE_SUMS])
    return TrainingResult(model, trace, fingerprint_of_sums(sums, rate), form=counted(model.trees))


def _total(source: LevelSource, n_codes: int) -> FloatArray:
    """Count, label and prediction of all rows: the sums over any one feature's codes."""
    total = source.level_sums([0])[0, :n_codes].sum(axis=0)
    return np.asarray(total[[COUNT, LABEL, PRED]], dtype=np.float64)


QUICK = BoostingOptions(
    max_trees=100, rate=0.2, patience=10, feature_share=1.0, leaves=(15,), small_data=0, most_cells=500_000
)
"""Growth by a feature or two needs no more."""


def feature_gains(
    cells: Cells,
    ordered: tuple[bool, ...],
    n_threads: int,
    seed: int = 0,
    on_feature: Callable[[int], None] = lambda _: None,
    block_options: BlockOptions | None = None,
) -> list[Gain]:
    """Gain of the score alone over the base, then of each other feature with the score over the score alone.

    Cells must be in canonical order, which is a random one. All features are evaluated on the same folds.
    """
    options = replace(QUICK, seed=seed)
    cells = cells.select(np.arange(min(len(cells), options.most_cells)))
    duplicates = duplicates_in(cells)
    cells = cells.per(duplicates.per_row)
    rows = split_cells(
        cells, ordered, (0,), options.n_folds, seed, atomic=not duplicates.uniform, block_options=block_options
    )
    alone = best_ensembles(rows, options, n_threads).best.held_out
    found = [held_out_gain(rows, rows.log_odds, alone)]
    on_feature(1)
    for j in range(1, len(ordered)):
        beside = replace(rows, usable=np.array([0, j]))
        with_feature = best_ensembles(beside, options, n_threads).best.held_out
        found.append(held_out_gain(rows, alone, with_feature))
        on_feature(1)
    return found
