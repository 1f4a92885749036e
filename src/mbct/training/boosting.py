"""Cross-fitted boosting: one ensemble a fold, each fitted on the other folds and evaluated on its own rows."""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from mbct.errors import ParameterError
from mbct.model.tree import CalibrationTree, rounded, terminal_nodes_of_rows
from mbct.training.binned_rows import BinnedRows, RowNumbers
from mbct.training.evidence import LEAST_PROGRESS
from mbct.training.folds import DEFAULT_FOLDS
from mbct.training.grower import frozen_tree, grow_tree, settle_rows
from mbct.training.nodes import TreeOptions
from mbct.training.splitter import GradientArray
from mbct.validation import FloatArray

_MOST_FOLDS = 100
_LEAST_STRETCH = 25  # Rounds of a stretch from which the loss to come is foreseen
_SLOWEST = 0.99  # Share of a stretch's gain that the next one brings at most
_RECENT = 3  # Rounds within which a loss that still falls must have fallen

OnRound = Callable[[int], None]


@dataclass(frozen=True)
class BoostingOptions:
    """The recipe's constants; each was chosen for robustness over many data sets, not tuned to one.

    ``leaves``: tree sizes to climb, each only while the held-out loss of the one before still falls after 10/rate
    trees, and kept only where it has then gained ``much_more`` times as much as the one before.
    ``small_leaves`` are tried where the first size ends within ``short_ensemble`` trees. The lowest held-out loss wins.
    Up to ``small_data`` rows, or ``large_data`` that belong to blocks, the winner is also grown with features ranked on
    the rows that chose the cut, which sees twice the rows. Of blocks the mean with it, or with another attempt, is
    taken where held-out rows show it to be better.
    ``free_values``: numbers of at most so many values may be cut into any two sets of them.
    ``rate`` None: 0.1, or 0.4 above ``large_data`` rows: the more rows, the less a small rate buys, and each doubling
    halves the time. ``patience``: rounds without progress after which growth ends; None: 40, or 20 above
    ``large_data`` rows, where rounds are long and the held-out loss is not noisy.
    ``tree_multiplier``: the mean of several ensembles wants more trees than each of them alone. ``most_cells``: larger
    data are sampled down to this many cells, to bound training time. ``distilled``: whether model size "auto"
    compresses the ensemble into few trees.
    """

    max_trees: int = 1000
    leaves: tuple[int, ...] = (15, 63, 127)
    small_leaves: int = 5
    much_more: float = 1.1
    rate: float | None = None
    parent_shrinkage: float = 10.0
    min_curvature: float = 3.0
    feature_share: float = 0.6
    free_values: int = 32
    n_folds: int = DEFAULT_FOLDS
    patience: int | None = None
    short_ensemble: int = 200
    tree_multiplier: float = 2.0
    small_data: float = 100_000
    large_data: float = 500_000
    most_cells: int = 5_000_000
    distilled: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if not 2 <= self.n_folds <= _MOST_FOLDS:
            raise ParameterError(
                f"n_folds={self.n_folds!r} must be at least 2, as one fold must be held out, and at most {_MOST_FOLDS}"
            )
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
        return 0.1 if weight <= self.large_data else 0.4

    def patience_for(self, weight: float) -> int:
        """Rounds without progress after which growth on so many rows ends."""
        if self.patience is not None:
            return self.patience
        return 40 if weight <= self.large_data else 20

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


def rng_of_fold(options: BoostingOptions, fold: int, tree_options: TreeOptions) -> np.random.Generator:
    """What draws the features and the halves of a fold's trees."""
    return np.random.default_rng([options.seed, fold, tree_options.max_leaves])


def draw_tree(
    rng: np.random.Generator, usable: npt.NDArray[np.int64], options: BoostingOptions
) -> tuple[npt.NDArray[np.int64], np.uint64]:
    """Features of the next tree, and the seed of its halves."""
    n_used = int(np.ceil(options.feature_share * len(usable)))
    features = np.sort(rng.permutation(usable)[:n_used])
    return features, rng.integers(0, 2**63, dtype=np.uint64)


class FoldBoosting:
    """One fold's ensemble: fitted on the other folds, evaluated on its own."""

    def __init__(
        self, rows: BinnedRows, fold: int, tree_options: TreeOptions, options: BoostingOptions, start: FloatArray
    ):
        self.rows = rows
        self.options = options
        self.tree_options = tree_options
        self.train_rows = rows.train_rows(fold)
        self.held_out_rows = rows.held_out_rows(fold)
        self.log_odds = start.copy()
        self.rng = rng_of_fold(options, fold, tree_options)
        self.trees: list[CalibrationTree] = []

    def grow(self) -> float:
        """Add a tree; returns the summed log loss of the held-out rows."""
        rows, gradient = self.rows, gradients_of_thread(len(self.rows.weight))
        features, seed = draw_tree(self.rng, rows.usable, self.options)
        tree = grow_tree(rows, self.train_rows, features, self.log_odds, rows.label, gradient, self.tree_options, seed)
        step = rounded(tree.leaf_value * self.tree_options.rate)
        sums = settle_rows(tree, step, gradient, rows.weight, rows.label, self.log_odds, rows.block_numbers)
        self.trees.append(frozen_tree(tree, step, sums))
        held_out = self.held_out_rows
        node = terminal_nodes_of_rows(rows.codes, held_out, tree.feature, tree.table_start, tree.table, rows.offset)
        self.log_odds[held_out] += step[node]
        return self.held_out_loss()

    def held_out_loss(self) -> float:
        """Summed log loss of the held-out rows."""
        return self.rows.loss(self.held_out_rows, self.log_odds)


_of_thread = threading.local()


def gradients_of_thread(n_rows: int) -> GradientArray:
    """An array that this thread uses for one tree after the other: fresh memory costs more time than a tree."""
    if len(getattr(_of_thread, "gradient", ())) != n_rows:
        _of_thread.gradient = np.zeros((n_rows, 4), dtype=np.float32)
    held: GradientArray = _of_thread.gradient
    return held


class Fold(Protocol):
    """What cross-fitted boosting asks of one fold's ensemble; its log-odds have a column for each of many classes."""

    held_out_rows: RowNumbers
    log_odds: FloatArray

    def grow(self) -> float:
        """Add a round of trees; returns the summed log loss of the held-out rows."""
        ...

    def held_out_loss(self) -> float:
        """Summed log loss of the held-out rows."""
        ...


FoldType = TypeVar("FoldType", bound=Fold)


class CrossFittedBoosting(Generic[FoldType]):
    """All folds' ensembles of one tree size, grown round by round until the pooled held-out loss stops falling.

    ``weight`` is that of all rows that some fold holds out.
    """

    def __init__(self, folds: Sequence[FoldType], weight: float, options: BoostingOptions):
        self.options = options
        self.folds = folds
        self.weight = weight
        self.held_out = folds[0].log_odds.copy()
        self._remember(fold.log_odds[fold.held_out_rows] for fold in folds)
        self.base = sum(fold.held_out_loss() for fold in folds) / weight
        self.loss, self.n_trees = self.base, 0
        self.losses = [self.base]
        self.stopped = False

    @property
    def n_rounds(self) -> int:
        """Number of rounds that have been grown."""
        return len(self.losses) - 1

    @property
    def gain(self) -> float:
        """Fall of the mean held-out loss at the best number of trees."""
        return self.base - self.loss

    @property
    def still_falls(self) -> bool:
        """Whether one of the last rounds was the best."""
        return not self.stopped and self.n_rounds - self.n_trees < _RECENT

    def lowest_by(self, n_rounds: int) -> float:
        """The loss that so many rounds may reach at best, if each stretch of rounds goes on to gain less than the last.

        The gain of the last two stretches, a quarter of the rounds each, is continued as a geometric series, twice as
        large for safety.
        """
        stretch = self.n_rounds // 4
        earlier, before, now = (self.losses[self.n_rounds - back * stretch] for back in (2, 1, 0))
        if stretch < _LEAST_STRETCH or before <= now:
            return 0.0
        ratio = min((before - now) / max(earlier - before, before - now), _SLOWEST)
        n_stretches = (n_rounds - self.n_rounds) / stretch
        return now - 2.0 * (before - now) * ratio * (1.0 - float(ratio**n_stretches)) / (1.0 - ratio)

    def run(
        self,
        pool: Executor,
        on_round: OnRound,
        until: int | None = None,
        beaten: Callable[["CrossFittedBoosting[FoldType]"], bool] = lambda _: False,
    ) -> None:
        """Add rounds until the loss has not fallen for a while, at most ``until``, or until beaten."""
        last = self.options.max_trees if until is None else min(until, self.options.max_trees)
        coming = self._submit_round(pool, [None] * len(self.folds)) if not self.stopped and self.n_rounds < last else []
        while coming:
            current, coming = coming, []
            if self.n_rounds + 1 < last:
                # Folds go on while others are still in the round before, so that no thread waits for the slowest.
                coming = self._submit_round(pool, current)
            grown = [each.result() for each in current]
            loss = sum(each.loss for each in grown) / self.weight
            self.losses.append(loss)
            on_round(self.n_rounds)
            if loss < self.loss - LEAST_PROGRESS:
                self.loss, self.n_trees = loss, self.n_rounds
                self._remember(each.held_out for each in grown)
            late = self.n_rounds - self.n_trees >= self.options.patience_for(self.weight)
            self.stopped = late or self.n_rounds >= self.options.max_trees or beaten(self)
            if self.stopped:
                for each in coming:
                    each.cancel()
                return

    def _submit_round(self, pool: Executor, before: Sequence["Future[_Grown] | None"]) -> list["Future[_Grown]"]:
        """One more round of every fold, each after its own last one; rounds beyond the last that counts are unused."""
        return [pool.submit(_grow_after, fold, last) for fold, last in zip(self.folds, before, strict=True)]

    def _remember(self, held_out: Iterable[FloatArray]) -> None:
        """Keep the log-odds of every fold's held-out rows."""
        for fold, log_odds in zip(self.folds, held_out, strict=True):
            self.held_out[fold.held_out_rows] = log_odds


class _Grown(NamedTuple):
    """Summed log loss and log-odds of a fold's held-out rows after a round."""

    loss: float
    held_out: FloatArray


def _grow_after(fold: Fold, last: "Future[_Grown] | None") -> _Grown:
    if last is not None:
        last.result()
    return _Grown(fold.grow(), fold.log_odds[fold.held_out_rows])


def fold_pool(n_threads: int, n_folds: int) -> ThreadPoolExecutor:
    """Threads for the folds."""
    return ThreadPoolExecutor(max(1, min(n_threads, n_folds)))
