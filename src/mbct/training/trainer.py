"""From cells and a configuration to a frozen model with all that is known of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

import numpy as np

from mbct.errors import ParameterError
from mbct.model.bins import FeatureBins
from mbct.model.ensemble import CalibrationEnsemble, Link
from mbct.model.provenance import FitTrace, RowFingerprint, fingerprint_of, fingerprint_of_sums, joined_fingerprint
from mbct.model.tree import NODE_SUMS, CalibrationTree, rounded
from mbct.stats.logodds import log_loss_of_logodds
from mbct.stats.scores import reorder_rate
from mbct.stats.sums import Sums, find_duplicates, rate_by_score
from mbct.training.binned_rows import duplicates_in
from mbct.training.binning import BinningOptions
from mbct.training.boosting import BoostingOptions
from mbct.training.cells import Cells
from mbct.training.default import counted, distill_ensemble, fit_cross_fitted
from mbct.training.evidence import Gain
from mbct.training.folds import BlockOptions
from mbct.training.monotone_step import train_monotone
from mbct.training.paper.histogram import COUNT, LABEL, PRED
from mbct.training.paper.levelwise import LevelSource
from mbct.training.paper.trainer import PaperOptions, boost, boost_cells, boost_validated
from mbct.training.sharded_fit import fit_sharded
from mbct.training.sharded_rows import split_shards, sums_of_cells
from mbct.training.shards import Columns, Shards
from mbct.validation import FloatArray

RankPreservation = Literal["free", "within-bin", "preserve"]
ModelSize = Literal["auto", "rules", "compact", "full"]


LEAST_RULES = 64
"""Smallest ``max_rules``."""
_PAIRS_OF = 100_000  # Cells whose pairs tell the reorder rate
_WEIGHTS_OF = 1_000_000  # Cells of shards that tell what weights count


@dataclass(frozen=True)
class Preset:
    """How to bin, how to grow and how steps move predictions."""

    binning: BinningOptions
    growth: PaperOptions | BoostingOptions
    link: Link


PRESETS: dict[str, Preset] = {
    "default": Preset(BinningOptions(), BoostingOptions(), "odds"),
    "fast": Preset(
        BinningOptions(),
        BoostingOptions(rate=0.5, leaves=(63,), short_ensemble=0, small_data=0, patience=6, distilled=False),
        "odds",
    ),
    "paper": Preset(
        BinningOptions(numeric_bins=32, score_bins=100, score_binning="width", min_category_rows=1.0),
        PaperOptions(),
        "linear",
    ),
}
OPTION_NAMES = frozenset(f.name for p in PRESETS.values() for part in (p.binning, p.growth) for f in fields(part))
"""Of all presets."""


def preset(name: str, overrides: Mapping[str, Any]) -> Preset:
    """The preset called ``name`` with some of its options replaced; None keeps the preset's value."""
    if name not in PRESETS:
        raise ParameterError(f"preset={name!r} is unknown; choose {' or '.join(map(repr, PRESETS))}")
    chosen = PRESETS[name]
    given = {key: value for key, value in overrides.items() if value is not None}
    known = {f.name for part in (chosen.binning, chosen.growth) for f in fields(part)}
    if foreign := sorted(set(given) - known):
        raise ParameterError(f"{foreign[0]}={given[foreign[0]]!r} has no meaning with preset={name!r}; leave it out")
    return Preset(_replaced(chosen.binning, given), _replaced(chosen.growth, given), chosen.link)


def _replaced(part: Any, given: Mapping[str, Any]) -> Any:
    for f in fields(part):
        if isinstance(given.get(f.name), str) and str not in (get_args(f.type) or (f.type,)):
            name = "learning_rate" if f.name == "rate" else f.name
            raise ParameterError(f"{name}={given[f.name]!r} is text: pass a number")
    own = {f.name: given.get(f.name, getattr(part, f.name)) for f in fields(part)}
    return type(part)(**own)


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

    def with_trees(self, trees: tuple[CalibrationTree, ...]) -> "TrainingResult":
        """The same with other trees."""
        return replace(self, model=self.model.with_trees(trees))


def train_cells(
    cells: Cells, bins: FeatureBins, config: TrainingConfig, advance: Callable[[int], None] = lambda _: None
) -> TrainingResult:
    """Train on cells in memory; those of preset "default" must be in canonical order."""
    growth = config.preset.growth
    if isinstance(growth, PaperOptions):
        grow = boost_cells if growth.validate is None else boost_validated
        trees, trace = grow(cells, bins.names, growth, config.n_threads, config.block_options)
        total = cells.total
        result = _paper_result(trees, trace, bins, config, lambda: np.array([getattr(total, n) for n in NODE_SUMS]))
    else:
        result = _train_default(cells, bins, growth, config, advance)
    some = cells.select(np.arange(min(len(cells), _PAIRS_OF)))
    before = some.sums.pred / some.sums.count
    return replace(result, reorder_rate=reorder_rate(before, result.model.calibrate_codes(some.codes, before)))


def train_in_engine(
    source: LevelSource, bins: FeatureBins, config: TrainingConfig, weight: float, positives: float
) -> TrainingResult:
    """Train the paper's trees on rows that stay in their engine, which sums them once for each level of a tree."""
    growth = config.preset.growth
    if not isinstance(growth, PaperOptions):
        raise TypeError("only the paper's trees grow on rows that stay in the engine")
    trees, trace = boost(source, bins.names, growth, growth.growth(weight, positives))

    def total() -> FloatArray:
        # The sums over any one feature's codes are those of all rows.
        return np.asarray(source.level_sums([0])[0, : bins.n_codes[0]].sum(axis=0)[[COUNT, LABEL, PRED]])

    return _paper_result(trees, trace, bins, config, total)


def train_shards(
    shards: Shards,
    n_blocks: int,
    bins: FeatureBins,
    config: TrainingConfig,
    advance: Callable[[int], None] = lambda _: None,
) -> TrainingResult:
    """Train preset "fast" on all cells of equal codes and prediction, which stay in their shards.

    ``n_blocks``: 0 where rows are independent. Whether weights count rows, and whether scores are those of the sample,
    is seen from the first cells, which are a random draw.
    """
    growth, limits, options = config.preset.growth, config.constraints, config.block_options
    if not isinstance(growth, BoostingOptions) or limits.model_size not in ("auto", "full"):
        raise TypeError("only full ensembles of cross-fitted trees grow on shards")
    head = shards.head(_WEIGHTS_OF)
    sums = sums_of_cells(head)
    duplicates = find_duplicates(sums.count, sums.label, rate_by_score(sums.count, sums.label, sums.logit / sums.count))
    shift = _sampling_shift(sums.divided(duplicates.per_row), limits.negative_sampling_rate)
    fingerprint = shards.total(_fingerprint_of_shard, joined_fingerprint)
    rows, weight = split_shards(
        shards,
        bins,
        growth,
        None if n_blocks == 0 else (n_blocks, options),
        per_row=duplicates.per_row,
        atomic=not duplicates.uniform,
        shift=shift,
    )
    found = fit_sharded(rows, weight, growth, lambda _: advance(1), keep_all=options.keep_all)
    constant = shift + float(np.log(limits.negative_sampling_rate))
    trees = found.trees if constant == 0.0 else _moved(found.trees, constant, sums.total())
    form = counted(trees) if found.trees else "no tree, predictions are left unchanged"
    result = TrainingResult(_model(bins, config, trees), found.trace, fingerprint, form=form, held_out=found.held_out)
    before = head["y_prob"][:_PAIRS_OF]
    moved = reorder_rate(before, result.model.calibrate_codes(head["codes"][:_PAIRS_OF], before))
    return replace(result, excluded=tuple(bins.names[j] for j in found.excluded), reorder_rate=moved)


def _fingerprint_of_shard(columns: Columns, _first: int) -> tuple[Columns, RowFingerprint]:
    return {}, fingerprint_of(columns["codes"], sums_of_cells(columns))


def _paper_result(
    trees: tuple[CalibrationTree, ...],
    trace: FitTrace,
    bins: FeatureBins,
    config: TrainingConfig,
    total: Callable[[], FloatArray],
) -> TrainingResult:
    """With the sums of the first tree's root as fingerprint: rows that stay in their engine give no more."""
    sums = np.array([getattr(trees[0], name)[0] for name in NODE_SUMS]) if trees else total()
    rows = fingerprint_of_sums(sums, config.constraints.negative_sampling_rate)
    return TrainingResult(_model(bins, config, trees), trace, rows, form=counted(trees))


def _model(bins: FeatureBins, config: TrainingConfig, trees: tuple[CalibrationTree, ...]) -> CalibrationEnsemble:
    return CalibrationEnsemble(bins.names[0], config.preset.link, bins, trees, config.alpha)


def _train_default(
    cells: Cells, bins: FeatureBins, growth: BoostingOptions, config: TrainingConfig, advance: Callable[[int], None]
) -> TrainingResult:
    """Cross-fitted training, then distillation; weights are scaled so that they count rows."""
    ordered, blocks, limits = tuple(feature.ordered for feature in bins), config.block_options, config.constraints
    fingerprint = fingerprint_of(cells.codes, cells.sums)
    duplicates = duplicates_in(cells)

    def train(cells: Cells, usable: Sequence[int], limits: Constraints, spare_trees: int = 0) -> TrainingResult:
        """Trees that split by the ``usable`` features; ``spare_trees`` are left free of a compact model's eight."""
        threads, atomic = config.n_threads, not duplicates.uniform
        found = fit_cross_fitted(
            cells, ordered, growth, threads, lambda _: advance(1), usable, atomic=atomic, block_options=blocks
        )
        if limits.model_size == "auto" and not growth.distilled:
            limits = replace(limits, model_size="full")
        features = [j for j in usable if blocks.keep_all or j not in found.excluded]
        shipped = distill_ensemble(found, cells, ordered, limits, advance, features, spare_trees)
        excluded = tuple(bins.names[j] for j in found.excluded)
        model = _model(bins, config, shipped.trees)
        return TrainingResult(model, found.trace, fingerprint, shipped.fidelity, shipped.form, found.held_out, excluded)

    cells = cells.per(duplicates.per_row)
    shift = _sampling_shift(cells.sums, limits.negative_sampling_rate)
    start = cells.moved(shift) if shift else cells
    if limits.rank_preservation == "free":
        trained = train(start, range(len(ordered)), limits)
    else:
        trained = train_monotone(train, start, limits)
    constant = shift + float(np.log(limits.negative_sampling_rate))
    return trained if constant == 0.0 else trained.with_trees(_moved(trained.model.trees, constant, start.total))


def _sampling_shift(sums: Sums, negative_sampling_rate: float) -> float:
    """Shift of the scores among sampled rows: 0 if they were fitted there, −log r if they refer to the population.

    Keeping a share r of the negatives multiplies the odds by 1/r. The labels tell which of the two the scores fit.
    """
    if negative_sampling_rate == 1.0:
        return 0.0
    start, rate = sums.logit / sums.count, sums.label / sums.count
    shift = -float(np.log(negative_sampling_rate))

    def loss(moved: float) -> float:
        return float(np.sum(sums.count * log_loss_of_logodds(start + moved, rate)))

    return shift if loss(shift) < loss(0.0) else 0.0


def _moved(trees: tuple[CalibrationTree, ...], constant: float, total: Sums) -> tuple[CalibrationTree, ...]:
    """The trees with a constant added to every prediction's log-odds, by the first of them."""
    if trees:
        return (trees[0].shifted(constant), *trees[1:])
    count, label, pred = (rounded(np.array([getattr(total, name)])) for name in NODE_SUMS)
    leaf, nothing = np.array([-1], dtype=np.int32), np.empty(0, dtype=np.int32)
    step = rounded(np.array([constant]))
    return (CalibrationTree(leaf, np.zeros(1, dtype=np.int64), nothing, step, count, label, pred),)
