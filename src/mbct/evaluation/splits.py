"""Which rows are fitted on and which are held out: folds of rows, of stretches of time, of groups, or given splits."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import TimeSeriesSplit, check_cv

from mbct.calibrators.folds import block_folds, cross_validation_folds, row_keys
from mbct.data.columns import Columns
from mbct.errors import DataError, ParameterError
from mbct.training.folds import BlockColumns, BlockNumbers
from mbct.validation import FloatArray

RowNumbers = npt.NDArray[np.intp]


@dataclass(frozen=True)
class SplitRows:
    """What splits depend on: all that rows hold, the class and the weight of each, and its block where it has one."""

    columns: Columns
    code: npt.NDArray[Any]
    weight: FloatArray
    block: BlockNumbers | None
    blocks: BlockColumns

    @property
    def kind(self) -> str | None:
        """What rows belong together by, "time" or "groups"; None where they stand alone."""
        return self.blocks.options.kind if self.blocks.given else None

    @property
    def in_order(self) -> bool:
        """Whether the blocks follow one another in time."""
        return self.kind == "time"


@dataclass(frozen=True)
class Split:
    """Numbers of the rows to fit on and of the rows held out."""

    train: RowNumbers
    held_out: RowNumbers


def make_splits(rows: SplitRows, cv: Any, seed: int) -> list[Split]:
    """Splits of the rows that count.

    ``cv`` is a number of folds, a scikit-learn splitter or a list of splits. Where the rows have blocks, folds are
    whole blocks of about equal weight: contiguous stretches of time, or random groups.
    """
    counted = rows.weight > 0
    if isinstance(cv, int | float | np.integer) and not isinstance(cv, bool):
        fold = _folds(rows, np.flatnonzero(counted), cv, seed)
        splits = [
            Split(np.flatnonzero(counted & (fold != k)), np.flatnonzero(fold == k)) for k in np.unique(fold[counted])
        ]
    else:
        splits = [Split(train[counted[train]], held_out[counted[held_out]]) for train, held_out in _given(cv, rows)]
    for number, split in enumerate(splits, start=1):
        _check(split, number, rows.code)
    return splits


def blocks_are_whole(splits: list[Split], block: BlockNumbers) -> bool:
    """Whether no split has rows of one block on both of its sides."""
    return not any(np.isin(np.unique(block[split.held_out]), block[split.train]).any() for split in splits)


def out_of_order(cv: Any, splits: list[Split], rows: SplitRows) -> list[str]:
    """One message where rows to hold out one stretch after the other are not in the order of time."""
    block = rows.block
    if (
        block is None
        or not isinstance(cv, TimeSeriesSplit)
        or rows.blocks.time is None
        or rows.blocks.groups is not None
    ):
        return []
    if all(block[split.train].max() <= block[split.held_out].min() for split in splits):
        return []
    return [f"cv={cv!r} takes rows as they stand, and these are not in the order of time: sort them by time first"]


def _folds(rows: SplitRows, counted: RowNumbers, n_folds: Any, seed: int) -> RowNumbers:
    """The fold of each row: rows of every class in each by what they hold, or whole blocks; -1 where none counts."""
    if rows.block is None:
        found = cross_validation_folds(row_keys(rows.columns.take(counted), seed), rows.code[counted], n_folds)
    else:
        found = block_folds(rows.block[counted], rows.weight[counted], n_folds, seed, rows.blocks.options.kind)
    fold = np.full(len(rows.weight), -1, dtype=np.intp)
    fold[counted] = found
    return fold


def _given(cv: Any, rows: SplitRows) -> list[tuple[RowNumbers, RowNumbers]]:
    """The splits of a splitter or of a list; a splitter by groups is handed the blocks."""
    if isinstance(cv, str | bool):
        raise ParameterError(f"cv must be a number of folds, a splitter or a list of splits, got {cv!r}")
    try:
        with warnings.catch_warnings():
            # Who gave time knows nothing of groups; whether blocks stay whole is checked afterwards.
            warnings.filterwarnings("ignore", "The groups parameter is ignored", UserWarning)
            splitter = check_cv(cv, rows.code, classifier=True)
            found = list(splitter.split(np.zeros((len(rows.code), 1)), rows.code, rows.block))
        return [(np.asarray(train, dtype=np.intp), np.asarray(test, dtype=np.intp)) for train, test in found]
    except (TypeError, ValueError) as error:
        raise ParameterError(f"cv={cv!r} gives no splits of these rows: {error}") from error


def _check(split: Split, number: int, code: npt.NDArray[Any]) -> None:
    labels = code[split.train]
    if len(labels) == 0 or len(split.held_out) == 0 or np.all(labels == labels[0]):
        raise DataError(
            f"split {number} has {len(split.held_out):,} rows held out and {len(labels):,} to fit on, of "
            f"{len(np.unique(labels))} class(es): two classes are needed to fit; take fewer folds or larger blocks"
        )
