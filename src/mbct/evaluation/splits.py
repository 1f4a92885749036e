"""Which rows are fitted on and which are held out: folds of rows, of stretches of time, of groups, or given splits."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import check_cv

from mbct.calibrators.folds import cross_validation_folds, row_keys
from mbct.calibrators.inputs import TrainingData
from mbct.data.columns import Columns
from mbct.errors import DataError, ParameterError
from mbct.validation import FloatArray, at_least

RowNumbers = npt.NDArray[np.intp]
Blocks = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Numbers of the rows to fit on and of the rows held out."""

    train: RowNumbers
    held_out: RowNumbers


def make_splits(data: TrainingData, cv: Any, block: Blocks | None, *, in_order: bool, seed: int) -> list[Split]:
    """Splits of the rows that count.

    ``cv`` is a number of folds, a scikit-learn splitter or a list of splits. Folds of ``block`` numbers are whole
    blocks: contiguous stretches of about equal weight where they are ``in_order`` of time, else random ones.
    """
    counted = data.weight > 0
    if isinstance(cv, int | float | np.integer) and not isinstance(cv, bool):
        rows = np.flatnonzero(counted)
        fold = _folds(data.take(rows), int(cv) if cv == int(cv) else cv, block, rows, in_order=in_order, seed=seed)
        splits = [Split(rows[fold != k], rows[fold == k]) for k in np.unique(fold)]
    else:
        splits = [
            Split(train[counted[train]], held_out[counted[held_out]]) for train, held_out in _given(cv, data, block)
        ]
    for number, split in enumerate(splits, start=1):
        _check(split, number, data.y_true)
    return splits


def block_folds(block: Blocks, weight: FloatArray, n_folds: int, seed: int, *, in_order: bool) -> RowNumbers:
    """Fold of each row: blocks of about equal total weight, contiguous in their order or in a random one.

    >>> block_folds(np.array([0, 0, 1, 2, 3]), np.ones(5), 2, 0, in_order=True).tolist()
    [0, 0, 0, 1, 1]
    """
    values, number = np.unique(block, return_inverse=True)
    if len(values) < n_folds:
        raise DataError(
            f"{len(values)} blocks of rows cannot fill {n_folds} folds: take cv={max(len(values), 2)} or less"
        )
    total = np.bincount(number, weight).astype(np.float64)
    order = np.arange(len(values)) if in_order else np.random.default_rng(seed).permutation(len(values))
    middle = np.cumsum(total[order]) - 0.5 * total[order]
    stretch = np.minimum((middle / total.sum() * n_folds).astype(np.intp), n_folds - 1)
    # Heavy blocks must not leave a later fold without any.
    place = np.arange(len(values))
    stretch = np.maximum(stretch, place - (len(values) - n_folds))
    for i in place:
        stretch[i] = min(stretch[i], stretch[i - 1] + 1 if i else 0)
    fold = np.empty(len(values), dtype=np.intp)
    fold[order] = stretch
    return fold[number]


def _folds(
    data: TrainingData, n_folds: Any, block: Blocks | None, rows: RowNumbers, *, in_order: bool, seed: int
) -> RowNumbers:
    if block is not None:
        at_least(2, cv=n_folds)
        return block_folds(block[rows], data.weight, n_folds, seed, in_order=in_order)
    keys = row_keys(Columns({**data.columns.by_name, " score": data.y_prob}, len(data.y_prob)), seed)
    return cross_validation_folds(keys, data.y_true, n_folds)


def _given(cv: Any, data: TrainingData, block: Blocks | None) -> list[tuple[RowNumbers, RowNumbers]]:
    """The splits of a splitter or of a list; a splitter by groups is handed the blocks."""
    if isinstance(cv, str | bool):
        raise ParameterError(f"cv must be a number of folds, a splitter or a list of splits, got {cv!r}")
    try:
        splitter = check_cv(cv, data.y_true, classifier=True)
        found = splitter.split(np.zeros((len(data.y_true), 1)), data.y_true, block)
        return [(np.asarray(train, dtype=np.intp), np.asarray(test, dtype=np.intp)) for train, test in found]
    except (TypeError, ValueError) as error:
        raise ParameterError(f"cv={cv!r} gives no splits of these rows: {error}") from error


def _check(split: Split, number: int, y_true: FloatArray) -> None:
    labels = y_true[split.train]
    if len(labels) == 0 or len(split.held_out) == 0 or np.all(labels == labels[0]):
        raise DataError(
            f"split {number} has {len(split.held_out):,} rows held out and {len(labels):,} to fit on, of "
            f"{len(np.unique(labels))} class(es): both classes are needed to fit; take fewer folds or larger blocks"
        )
