"""From cells and a configuration to a frozen model with all that is known of it."""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from mbct.errors import ParameterError
from mbct.jit import kernel
from mbct.model.bins import CodeMatrix, FeatureBins
from mbct.model.ensemble import CalibrationEnsemble, Link
from mbct.model.tree import NODE_SUMS, CalibrationTree, FitTrace, rounded
from mbct.stats.probabilities import log_loss_of_logodds, reorder_rate
from mbct.stats.random_stream import mix, next_state
from mbct.training.binned_rows import duplicates_in
from mbct.training.binning import BinningOptions
from mbct.training.boosting import BoostingOptions
from mbct.training.cells import Cells, Sums
from mbct.training.default import counted, distill_ensemble, fit_cross_fitted
from mbct.training.evidence import Gain
from mbct.training.folds import BlockOptions
from mbct.training.monotone_step import train_monotone
from mbct.training.paper.histogram import COUNT, LABEL, PRED
from mbct.training.paper.levelwise import LevelSource
from mbct.training.paper.trainer import PaperOptions, boost, boost_cells, boost_validated
from mbct.validation import FloatArray

RankPreservation = Literal["free", "within-bin", "preserve"]
ModelSize = Literal["auto", "rules", "compact", "full"]


LEAST_RULES = 64
"""Smallest ``max_rules``."""
PAIRS_OF = 100_000
"""Cells whose pairs tell the reorder rate."""


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
        BoostingOptions(
            rate=0.5, leaves=(63,), short_ensemble=0, small_data=0, large_data=0, patience=6, distilled=False
        ),
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


_SKETCH = 512
_ENOUGH = 10.0  # Hashes of the sketch that must be expected among rows of the fit, to tell rows of the fit from others
_BEYOND_CHANCE, _AT_LEAST = 4.0, 3.0
"""Standard errors above what rows that equal each other by chance explain, and a number above it."""
_MOSTLY_TWINS = 0.5  # Share of rows with a twin from which on equal rows say nothing
_SAME = 1e-8  # Relative difference of sums that rounding explains: models keep nine digits

HashArray = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class RowFingerprint:
    """Sums of the rows of a fit before the first tree, the number of rows that are unique, and hashes of some.

    It is enough to see the rows again, too little to rebuild them. The ``sketch`` holds the smallest hashes of the rows
    that no other row equals: hashes are as good as random, so the share of it that other rows contain is the share of
    the fit's rows among them.
    """

    count: float = 0.0
    label: float = 0.0
    pred: float = 0.0
    unique: int = 0
    sketch: tuple[int, ...] = ()

    def same_rows(self, count: float, label: float, pred: float) -> bool:
        """Whether rows with these sums are those of the fit."""
        return bool(np.allclose((count, label, pred), (self.count, self.label, self.pred), rtol=_SAME, atol=0.0))

    def seen(self, hashes: HashArray) -> bool | None:
        """Whether rows of the fit are among these; None where it cannot be told."""
        _, times = np.unique(hashes, return_counts=True)
        twins = float(times[times > 1].sum()) / max(len(hashes), 1)
        expected = min(len(hashes) / max(self.unique, 1), 1.0) * len(self.sketch)
        if expected < _ENOUGH or twins > _MOSTLY_TWINS:
            return None
        by_chance = twins * len(self.sketch)
        found = int(np.isin(np.array(self.sketch, dtype=np.uint64), hashes).sum())
        return found > by_chance + _BEYOND_CHANCE * math.sqrt(by_chance) + _AT_LEAST

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {**vars(self), "sketch": list(self.sketch)}


def fingerprint_of(codes: CodeMatrix, sums: Sums) -> RowFingerprint:
    """The fingerprint of the rows of some cells."""
    alone = np.flatnonzero(sums.count == 1.0)
    hashes = np.sort(row_hashes(codes[alone], sums.pred[alone], sums.label[alone]))
    total = sums.total()
    known = fingerprint_of_sums(np.array([total.count, total.label, total.pred]))
    return RowFingerprint(known.count, known.label, known.pred, len(hashes), tuple(hashes[:_SKETCH].tolist()))


def fingerprint_of_sums(total: FloatArray, negative_sampling_rate: float = 1.0) -> RowFingerprint:
    """The fingerprint of rows of which only count, label and prediction are known; a negative counts 1/rate times."""
    count, label, pred = (float(value) for value in total)
    return RowFingerprint(*rounded(np.array([label + (count - label) * negative_sampling_rate, label, pred])).tolist())


def joined_fingerprint(left: RowFingerprint, right: RowFingerprint) -> RowFingerprint:
    """The fingerprint of the rows of both."""
    amounts = (left.count + right.count, left.label + right.label, left.pred + right.pred)
    sketch = sorted((*left.sketch, *right.sketch))[:_SKETCH]
    return replace(fingerprint_of_sums(np.array(amounts)), unique=left.unique + right.unique, sketch=tuple(sketch))


def row_hashes(codes: CodeMatrix, y_prob: FloatArray, y_true: FloatArray) -> HashArray:
    """53 bits of codes, prediction and label of each row: whole numbers that JSON keeps."""
    return _mixed(codes, np.ascontiguousarray(y_prob, dtype=np.float64).view(np.uint64), y_true) >> np.uint64(11)


def data_hash(hashes: HashArray) -> str:
    """Digest of rows in whatever order."""
    return hashlib.sha256(np.sort(hashes).tobytes()).hexdigest()[:16]


@kernel
def _mixed(codes: CodeMatrix, score: HashArray, y_true: FloatArray) -> HashArray:
    """Splitmix64 over the columns of each row."""
    hashed = np.empty(len(codes), np.uint64)
    for i in range(len(codes)):
        value = score[i] ^ np.uint64(y_true[i])
        for j in range(codes.shape[1]):
            value = mix(next_state(value) + np.uint64(codes[i, j]))
        hashed[i] = value
    return hashed


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
    some = cells.select(np.arange(min(len(cells), PAIRS_OF)))
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
    return TrainingResult(model_of(bins, config, trees), trace, rows, form=counted(trees))


def model_of(bins: FeatureBins, config: TrainingConfig, trees: tuple[CalibrationTree, ...]) -> CalibrationEnsemble:
    """The frozen model of grown trees."""
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
        model = model_of(bins, config, shipped.trees)
        return TrainingResult(model, found.trace, fingerprint, shipped.fidelity, shipped.form, found.held_out, excluded)

    cells = cells.per(duplicates.per_row)
    shift = sampling_shift(cells.sums, limits.negative_sampling_rate)
    start = cells.moved(shift) if shift else cells
    if limits.rank_preservation == "free":
        trained = train(start, range(len(ordered)), limits)
    else:
        trained = train_monotone(train, start, limits)
    constant = shift + float(np.log(limits.negative_sampling_rate))
    return trained if constant == 0.0 else trained.with_trees(moved_trees(trained.model.trees, constant, start.total))


def sampling_shift(sums: Sums, negative_sampling_rate: float) -> float:
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


def moved_trees(trees: tuple[CalibrationTree, ...], constant: float, total: Sums) -> tuple[CalibrationTree, ...]:
    """The trees with a constant added to every prediction's log-odds, by the first of them."""
    if trees:
        return (trees[0].shifted(constant), *trees[1:])
    count, label, pred = (rounded(np.array([getattr(total, name)])) for name in NODE_SUMS)
    leaf, nothing = np.array([-1], dtype=np.int32), np.empty(0, dtype=np.int32)
    step = rounded(np.array([constant]))
    return (CalibrationTree(leaf, np.zeros(1, dtype=np.int64), nothing, step, count, label, pred),)
