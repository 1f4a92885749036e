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
from mbct.training.folds import BlockColumns, folds_of_blocks
from mbct.validation import FloatArray, at_least

RowNumbers = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Split:
    """Numbers of the rows to fit on and of the rows held out."""

    train: RowNumbers
    held_out: RowNumbers


def make_splits(data: TrainingData, cv: Any, seed: int) -> list[Split]:
    """Splits of the rows that count.

    ``cv`` is a number of folds, a scikit-learn splitter or a list of splits. Where the rows have blocks, folds are
    whole blocks of about equal weight: contiguous stretches of time, or random groups.
    """
    counted = data.weight > 0
    if isinstance(cv, int | float | np.integer) and not isinstance(cv, bool):
        rows = np.flatnonzero(counted)
        fold = _folds(data.take(rows), cv, seed)
        splits = [Split(rows[fold != k], rows[fold == k]) for k in np.unique(fold)]
    else:
        splits = [Split(train[counted[train]], held_out[counted[held_out]]) for train, held_out in _given(cv, data)]
    for number, split in enumerate(splits, start=1):
        _check(split, number, data.y_true)
    return splits


def _folds(data: TrainingData, n_folds: Any, seed: int) -> RowNumbers:
    columns = Columns({**data.columns.by_name, " score": data.y_prob}, len(data.y_prob))
    return folds_of_rows(columns, data.y_true, data.weight, data.block, data.blocks, n_folds, seed)


def folds_of_rows(
    columns: Columns,
    code: npt.NDArray[Any],
    weight: FloatArray,
    block: npt.NDArray[np.int32] | None,
    blocks: BlockColumns | None,
    n_folds: Any,
    seed: int,
) -> RowNumbers:
    """The fold of each row: rows of every class ``code`` in each by what ``columns`` hold, or whole blocks."""
    if block is None or blocks is None:
        return cross_validation_folds(row_keys(columns, seed), code, n_folds)
    at_least(2, cv=n_folds)
    values, number = np.unique(block, return_inverse=True)
    if len(values) < n_folds:
        raise DataError(f"{len(values)} blocks of rows cannot fill {n_folds} folds: take cv={len(values)} or less")
    total = np.bincount(number, weight).astype(np.float64)
    return folds_of_blocks(total, int(n_folds), seed, blocks.options.kind)[number].astype(np.intp)


def _given(cv: Any, data: TrainingData) -> list[tuple[RowNumbers, RowNumbers]]:
    """The splits of a splitter or of a list; a splitter by groups is handed the blocks."""
    if isinstance(cv, str | bool):
        raise ParameterError(f"cv must be a number of folds, a splitter or a list of splits, got {cv!r}")
    try:
        splitter = check_cv(cv, data.y_true, classifier=True)
        found = splitter.split(np.zeros((len(data.y_true), 1)), data.y_true, data.block)
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
