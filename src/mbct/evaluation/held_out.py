"""Methods fitted on the same splits, each evaluated on the rows that it has not seen, with paired differences."""

import time as clock
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from mbct.calibrators.base import Calibrator
from mbct.calibrators.inputs import unfit_columns
from mbct.data.columns import Columns
from mbct.errors import DataError, MBCTWarning, MissingDependencyError
from mbct.evaluation.comparison import Comparison, Failure, MethodScore
from mbct.evaluation.metrics.evaluation import METRICS
from mbct.evaluation.metrics.multi_view import closed_form_of_rows
from mbct.evaluation.metrics.rows import Rows
from mbct.evaluation.splits import RowNumbers, Split, SplitRows, blocks_are_whole
from mbct.progress import track
from mbct.stats.probabilities import log_losses
from mbct.training.evidence import standard_error_of_blocks
from mbct.training.folds import BlockColumns, BlockNumbers, time_or_group
from mbct.validation import FloatArray

BASE = "identity"
_MVCE_BINS = 20

Fit = Callable[[RowNumbers], Callable[[RowNumbers], FloatArray]]
"""Fits on the rows of the given numbers; the result predicts the rows of others."""


def compare_held_out(
    methods: Mapping[str, Fit], rows: SplitRows, outcome: FloatArray, splits: list[Split]
) -> Comparison:
    """Methods, the base among them, by rising held-out log loss.

    ``outcome`` is 1 for the positive class, else 0; of many classes it has a column for each.
    """
    results, failures = {}, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MBCTWarning)  # what is said of the rows is said once, not by every fit
        for name in track(list(methods), "comparing methods"):
            try:
                results[name] = _held_out(methods[name], splits)
            except (DataError, MissingDependencyError) as error:
                failures.append(Failure(name, str(error)))
    held_out = _HeldOutRows.of_splits(rows, outcome, splits)
    whole = rows.block is None or blocks_are_whole(splits, rows.block)
    n_rows = len(np.unique(np.concatenate([split.held_out for split in splits])))
    scores = tuple(_scores(results, held_out))
    return Comparison(scores, tuple(failures), n_rows, len(splits), BASE, rows.kind, whole)


def own_blocks(calibrator: Calibrator, shared: BlockColumns) -> BlockColumns:
    """Blocks by which a calibrator is fitted: its own where it names time or groups, else those of the comparison.

    Its own length of blocks, gap and half life count in either case.
    """
    parameters = calibrator.get_params(deep=False)
    own = {f.name: parameters[f.name] for f in fields(BlockColumns) if parameters.get(f.name, f.default) != f.default}
    if "time" in own or "groups" in own:
        return BlockColumns(**own)
    return replace(shared, **own) if own else shared


def describe_columns(others: Columns, own: Mapping[str, BlockColumns], shared: BlockColumns) -> list[str]:
    """What is to be said of columns that are no features, and of methods that go by blocks where the splits do not."""
    unfit = [f"{name} ({reason})" for name, reason in unfit_columns(others).items()]
    lines = [f"no features, mbct leaves them out, drop them for the other methods: {', '.join(unfit)}"] if unfit else []
    for name, blocks in own.items():
        if blocks.given and not shared.given:
            given = f"time={blocks.time!r}" if blocks.time is not None else f"groups={blocks.groups!r}"
            lines.append(f"{name} is fitted by {given}, but rows are held out one by one: pass {given} here too")
    return lines


@dataclass(frozen=True)
class _HeldOut:
    """Held-out predictions of one method, split after split, and how long it took."""

    y_prob: FloatArray
    fit_seconds: float
    predict_seconds: float


def _held_out(fit: Fit, splits: list[Split]) -> _HeldOut:
    calibrated = []
    fit_seconds = predict_seconds = 0.0
    for split in splits:
        start = clock.perf_counter()
        predict = fit(split.train)
        middle = clock.perf_counter()
        calibrated.append(predict(split.held_out))
        fit_seconds += middle - start
        predict_seconds += clock.perf_counter() - middle
    return _HeldOut(np.concatenate(calibrated), fit_seconds, predict_seconds)


@dataclass(frozen=True)
class _HeldOutRows:
    """The held-out rows of all splits, one after the other; a row that stands alone is a ``block`` of its own."""

    split: npt.NDArray[np.intp]
    block: BlockNumbers
    outcome: FloatArray
    weight: FloatArray
    in_order: bool

    @classmethod
    def of_splits(cls, rows: SplitRows, outcome: FloatArray, splits: list[Split]) -> "_HeldOutRows":
        row = np.concatenate([split.held_out for split in splits])
        number = np.repeat(np.arange(len(splits)), [len(split.held_out) for split in splits])
        block = np.unique(row if rows.block is None else time_or_group(rows.block[row]), return_inverse=True)[1]
        return cls(number, block.astype(np.int32), outcome[row], rows.weight[row], rows.in_order)

    def losses(self, y_prob: FloatArray) -> FloatArray:
        """Log loss of each row."""
        if y_prob.ndim == 1:
            return log_losses(y_prob, self.outcome)
        return log_losses(np.sum(y_prob * self.outcome, axis=1), np.ones(len(y_prob)))

    def squares(self, y_prob: FloatArray) -> FloatArray:
        """Squared error of each row, summed over the classes where there are many."""
        squares = (y_prob - self.outcome) ** 2
        return squares if squares.ndim == 1 else np.asarray(squares.sum(axis=1))

    def mean(self, values: FloatArray) -> float:
        """Weighted mean over all rows."""
        return float(np.average(values, weights=self.weight))

    def paired(self, difference: FloatArray) -> tuple[float, float]:
        """Weighted mean, and its standard error from sums over blocks."""
        gain = self.weight * difference
        return self.mean(difference), standard_error_of_blocks(gain, self.weight, self.block, in_order=self.in_order)

    def mean_metrics(self, y_prob: FloatArray) -> tuple[float, float, float]:
        """AUC, ECE and MVCE: means over the splits by their weight, and over classes against the rest."""
        parts, weights = [], []
        columns = list(zip(np.atleast_2d(y_prob.T), np.atleast_2d(self.outcome.T), strict=True))
        for k in np.unique(self.split):
            here = self.split == k
            for prediction, outcome in columns:
                rows = Rows(prediction[here], outcome[here], self.weight[here])
                parts.append([METRICS["auc"](rows), METRICS["ece"](rows), closed_form_of_rows(rows, _MVCE_BINS, 2.0)])
                weights.append(float(rows.weight.sum()))
        # A held-out part of one class ranks nothing: its AUC is left out.
        auc, ece, mvce = (
            float(np.average(column[ok := ~np.isnan(column)], weights=np.array(weights)[ok]))
            for column in np.array(parts).T
        )
        return auc, ece, mvce


def _scores(results: dict[str, _HeldOut], rows: _HeldOutRows) -> list[MethodScore]:
    """Scores of all methods by rising log loss; the base first among equals, as nothing else changes less."""
    losses = {name: rows.losses(found.y_prob) for name, found in results.items()}
    squares = {name: rows.squares(found.y_prob) for name, found in results.items()}
    order = sorted(results, key=lambda name: (rows.mean(losses[name]), name != BASE))
    return [
        MethodScore(
            name,
            rows.mean(losses[name]),
            rows.mean(squares[name]),
            *rows.mean_metrics(results[name].y_prob),
            *rows.paired(losses[name] - losses[BASE]),
            *rows.paired(squares[name] - squares[BASE]),
            *rows.paired(losses[name] - losses[order[0]]),
            results[name].fit_seconds,
            results[name].predict_seconds,
        )
        for name in order
    ]
