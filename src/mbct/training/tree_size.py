"""The size of trees: ensembles of several sizes grow as far as they may win, and the lowest held-out loss decides.

Ensembles that rank features differently make different errors, so the mean of two is often better than either.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix
from mbct.model.tree import CalibrationTree, IntArray, rounded
from mbct.stats.probabilities import probability_of
from mbct.training.binned_rows import BinnedRows, RowNumbers
from mbct.training.block_recalibration import fit_block_recalibration
from mbct.training.boosting import BoostingOptions, CrossFittedBoosting, FoldBoosting, FoldType, OnRound, fold_pool
from mbct.training.evidence import MEAN_AHEAD, OFFSETS_AHEAD, held_out_gain
from mbct.training.offsets import Offsets, fit_recalibration
from mbct.training.value_offsets import fit_value_offsets
from mbct.validation import FloatArray

_ROWS_OF_GAINS = 50_000  # Held-out rows of a fold from which the gain of each feature is known


def best_size(
    first: CrossFittedBoosting[FoldType],
    of_size: Callable[[int], CrossFittedBoosting[FoldType]],
    options: BoostingOptions,
    weight: float,
    pool: Executor,
    on_round: OnRound,
) -> tuple[CrossFittedBoosting[FoldType], list[CrossFittedBoosting[FoldType]]]:
    """The folds' ensembles of the tree size with the lowest held-out loss, and all that were tried.

    ``first`` has trees of the first size and may have been begun already. Smaller trees are tried where little is to be
    learnt, larger ones where much is.
    """
    look = options.look_after(weight)
    tried = [first]
    first.run(pool, on_round, until=look)
    chosen = first
    for leaves in options.leaves[1:]:
        if not chosen.still_falls:
            break
        tried.append(of_size(leaves))
        tried[-1].run(pool, on_round, until=look)
        if tried[-1].gain < options.much_more * chosen.gain:
            break
        chosen = tried[-1]
    chosen.run(pool, on_round)
    if chosen is not first and chosen.n_trees < 2 * look:
        # Larger trees fall faster at first. Where they end soon, the size before them may get further.
        tried[tried.index(chosen) - 1].run(pool, on_round, beaten=_out_of_reach(chosen))
    if len(tried) == 1 and chosen.n_trees <= options.short_ensemble:
        small = of_size(options.small_leaves)
        small.run(pool, on_round, beaten=_out_of_reach(chosen))
        tried.append(small)
    return min(tried, key=lambda found: found.loss), tried


@dataclass(frozen=True)
class Ensembles:
    """The folds' ensembles with the lowest held-out loss, all that were tried, and the offsets they start from.

    ``chosen``: one attempt, or two whose mean is better. Offsets are a logit recalibration, or that and per-value
    offsets, or none; ``base`` is the loss before them.
    """

    chosen: tuple[CrossFittedBoosting[Any], ...]
    tried: Sequence[CrossFittedBoosting[Any]]
    start: Offsets | None
    base: float

    @property
    def held_out(self) -> FloatArray:
        """Log-odds of each row by the ensembles of the fold that holds it out."""
        return _mean_held_out(self.chosen)

    def trees_by_fold(self, found: CrossFittedBoosting[Any], n_trees: int) -> list[tuple[CalibrationTree, ...]]:
        """The first trees of each fold of one attempt."""
        return [tuple(fold.trees[:n_trees]) for fold in found.folds]

    def gain_by_feature(self, rows: BinnedRows, *, with_trees: bool = True) -> tuple[float, ...]:
        """Fall of the mean held-out loss that each feature's offsets and splits bring, from some rows of each fold."""
        gained, weight = np.zeros(len(rows.ordered)), 0.0
        by_fold = zip(*(self.trees_by_fold(each, each.n_trees) for each in self.chosen), strict=True)
        for fold, chosen in enumerate(by_fold):
            own, log_odds = rows.held_out_rows(fold)[:_ROWS_OF_GAINS], rows.log_odds.copy()
            weight += float(rows.weight[own].sum())
            if self.start is not None:
                log_odds += self.start.constants[fold]
                for j in self.start.features:
                    before = rows.loss(own, log_odds)
                    log_odds += self.start.steps[fold][rows.offset[j] : rows.offset[j + 1]][rows.codes[:, j]]
                    gained[j] += before - rows.loss(own, log_odds)
            for tree in (tree for trees in chosen for tree in trees) if with_trees else ():
                nodes = tree.feature, tree.table_start, tree.table, tree.leaf_value / len(self.chosen)
                add_gains(own, rows.codes, *nodes, rows.weight, rows.label, log_odds, gained)
        return tuple(rounded(gained / weight).tolist())


@kernel
def add_gains(
    rows: RowNumbers,
    codes: CodeMatrix,
    feature: IntArray,
    table_start: npt.NDArray[np.int64],
    table: IntArray,
    step: FloatArray,
    weight: FloatArray,
    label: FloatArray,
    log_odds: FloatArray,
    gained: FloatArray,
) -> None:
    """Add what the splits of a tree gain on some rows to their features, and move the rows.

    A step s gains s·G − ½·s²·H in log-likelihood. What it is more at a child than at its parent is the parent's
    feature's; what the root gains, a shift of all rows, is the score's.
    """
    for i in rows:
        q = probability_of(log_odds[i])
        g = label[i] - weight[i] * q
        h = weight[i] * q * (1.0 - q)
        node, column, before = 0, 0, 0.0
        while node >= 0:
            now = step[node] * (g - 0.5 * step[node] * h)
            gained[column] += now - before
            reached, before = node, now
            column = feature[node]
            node = table[table_start[node] + codes[i, column]] if column >= 0 else -1
        log_odds[i] += step[reached]


def best_ensembles(
    rows: BinnedRows, options: BoostingOptions, n_threads: int, on_round: OnRound = lambda _: None
) -> Ensembles:
    """:func:`best_size` of ensembles grown on binned rows.

    They start from a logit recalibration where held-out rows gain by it, and from per-value offsets where those are
    clearly ahead of the first trees.
    """
    weight = float(rows.weight.sum())
    n_folds, independent = rows.n_folds if rows.blocks is not None else options.n_folds, rows.blocks is None
    unmoved = (rows.log_odds,) * n_folds

    def of_size(leaves: int, start: Offsets | None, *, cross_fitted: bool = True) -> CrossFittedBoosting[FoldBoosting]:
        tree_options = options.tree(leaves, weight, cross_fitted=cross_fitted)
        log_odds = unmoved if start is None else start.log_odds
        folds = [FoldBoosting(rows, k, tree_options, options, z) for k, z in enumerate(log_odds)]
        return CrossFittedBoosting(folds, rows.evaluated_weight, options)

    with fold_pool(n_threads, n_folds) as pool:
        start = fit_recalibration(rows, n_folds, pool) if independent else fit_block_recalibration(rows, pool)
        offsets = fit_value_offsets(rows, n_folds, pool) if independent else None
        first = of_size(options.leaves[0], start)
        passed_over: list[CrossFittedBoosting[FoldBoosting]] = []
        if offsets is not None:
            # A score that misses the offsets has a flatter line than beside them, so it is recalibrated anew.
            offsets = fit_recalibration(rows, n_folds, pool, offsets) or offsets
            first.run(pool, on_round, until=options.look_after(weight))
            ahead = held_out_gain(rows, first.held_out, offsets.held_out(rows))
            if ahead.value > OFFSETS_AHEAD * ahead.standard_error:
                passed_over, start = [first], offsets
                first = of_size(options.leaves[0], start)
        best, tried = best_size(first, lambda leaves: of_size(leaves, start), options, weight, pool, on_round)
        if best.n_trees and weight <= (options.small_data if independent else options.large_data):
            tried.append(of_size(best.folds[0].tree_options.max_leaves, start, cross_fitted=False))
            tried[-1].run(pool, on_round, beaten=_out_of_reach(best) if independent else _never)
    base = rows.loss(rows.evaluated_rows, rows.log_odds) / rows.evaluated_weight
    # On independent rows the mean of the folds leaves little noise for a second ensemble to halve: it did harm there.
    chosen = (min(tried, key=lambda found: found.loss),) if independent else _best_or_mean(tried, rows)
    return Ensembles(chosen, passed_over + tried, start, base)


def _best_or_mean(
    tried: Sequence[CrossFittedBoosting[FoldBoosting]], rows: BinnedRows
) -> tuple[CrossFittedBoosting[FoldBoosting], ...]:
    """The attempt with the lowest held-out loss, or it and the one whose mean with it is ahead by a standard error."""
    best = min(tried, key=lambda found: found.loss)
    chosen: tuple[CrossFittedBoosting[FoldBoosting], ...] = (best,)
    most = 0.0
    for other in tried:
        if other is best or not other.n_trees:
            continue
        gain = held_out_gain(rows, best.held_out, _mean_held_out((best, other)))
        if gain.value > max(most, MEAN_AHEAD * gain.standard_error):
            chosen, most = (best, other), gain.value
    return chosen


def _mean_held_out(chosen: Sequence[CrossFittedBoosting[FoldBoosting]]) -> FloatArray:
    return np.asarray(np.mean([each.held_out for each in chosen], axis=0))


def _never(_: CrossFittedBoosting[FoldType]) -> bool:
    return False


def _out_of_reach(best: CrossFittedBoosting[FoldType]) -> Callable[[CrossFittedBoosting[FoldType]], bool]:
    """Whether an attempt is behind the best one and will be after three times as many rounds as that had."""

    def beaten(found: CrossFittedBoosting[FoldType]) -> bool:
        last = 3 * best.n_trees + 20
        return found.loss > best.loss and (found.n_rounds > last or found.lowest_by(last) > best.loss)

    return beaten
