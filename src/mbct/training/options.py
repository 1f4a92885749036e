"""The presets (the paper as printed; the default, validated on held-out data; a faster one) and their constants."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args

from mbct.errors import ParameterError
from mbct.model.ensemble import Link
from mbct.training.binning import BinningOptions
from mbct.training.grower import TreeOptions
from mbct.training.paper.trainer import PaperOptions


@dataclass(frozen=True)
class BoostingOptions:
    """The recipe's constants; each was chosen for robustness over many data sets, not tuned to one.

    ``leaves``: tree sizes to climb, each only while the held-out loss of the one before still falls after 10/rate
    trees, and kept only where it has then gained ``much_more`` times as much as the one before.
    ``small_leaves`` are tried where the first size ends within ``short_ensemble`` trees. The lowest held-out loss wins.
    Up to ``small_data`` rows the winner is also grown with features ranked on the rows that chose the cut, which sees
    twice the rows: where categories are few and dense that may do better.
    ``free_values``: numbers of at most so many values may be cut into any two sets of them.
    ``rate`` None: 0.1 up to ``small_data`` rows, 0.2 above and 0.4 above ``large_data`` rows: the more rows, the less a
    small rate buys, and each doubling halves the time. ``patience``: rounds without progress after which growth ends;
    None: 40 up to ``small_data`` rows, where rounds are cheap and the held-out loss is noisy, 20 above.
    ``tree_multiplier``: the mean of several ensembles wants more trees than each of them alone. ``most_cells``: larger
    data are sampled down to this many cells, to bound training time. ``distilled``: whether model size "auto"
    compresses the ensemble into few trees.
    """

    max_trees: int = 600
    leaves: tuple[int, ...] = (15, 63, 127)
    small_leaves: int = 5
    much_more: float = 1.1
    rate: float | None = None
    parent_shrinkage: float = 10.0
    min_curvature: float = 3.0
    feature_share: float = 0.6
    free_values: int = 32
    n_folds: int = 5
    patience: int | None = None
    short_ensemble: int = 200
    tree_multiplier: float = 2.0
    small_data: float = 100_000
    large_data: float = 500_000
    most_cells: int = 2_000_000
    distilled: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n_folds < 2:
            raise ParameterError(f"n_folds={self.n_folds!r} must be at least 2: one fold must be held out")
        if self.max_trees < 1:
            raise ParameterError(f"max_trees={self.max_trees!r} must be at least 1")
        if self.rate is not None and not 0.0 < self.rate <= 1.0:
            raise ParameterError(f"learning_rate={self.rate!r} must lie above 0 and at most at 1")
        if not 0.0 < self.feature_share <= 1.0:
            raise ParameterError(f"feature_share={self.feature_share!r} must lie above 0 and at most at 1")

    def rate_for(self, weight: float) -> float:
        """Learning rate on so many rows."""
        if self.rate is not None:
            return self.rate
        return 0.1 if weight <= self.small_data else 0.2 if weight <= self.large_data else 0.4

    def patience_for(self, weight: float) -> int:
        """Rounds without progress after which growth on so many rows ends."""
        if self.patience is not None:
            return self.patience
        return 40 if weight <= self.small_data else 20

    def look_after(self, weight: float) -> int:
        """Rounds after which a loss that still falls asks for larger trees."""
        return round(10.0 / self.rate_for(weight))

    def trees_of_mean(self, n_trees: int, n_rounds: int) -> int:
        """Trees that the mean of the folds keeps, of those that were grown."""
        return min(round(n_trees * self.tree_multiplier), n_rounds)

    def tree(self, max_leaves: int, weight: float, *, cross_fitted: bool = True) -> TreeOptions:
        """Growth of one tree with that many leaves; sets of values are tried only where other rows evaluate them."""
        free_values = self.free_values if cross_fitted else 0
        rate = self.rate_for(weight)
        return TreeOptions(max_leaves, self.parent_shrinkage, self.min_curvature, rate, cross_fitted, free_values)


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
