"""Which rows are fitted on and which are held out: folds of rows, of stretches of time, of groups, or given splits."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import TimeSeriesSplit, check_cv

from mbct.calibrators.folds import cross_validation_folds, refuse_few_blocks, row_keys
from mbct.data.columns import Columns
from mbct.errors import DataError, ParameterError
from mbct.training.folds import BlockColumns, BlockNumbers, row_blocks, time_or_group
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
        """What rows belong together by, "time", "groups" or "time and groups"; None where they stand alone."""
        given = (("time", self.blocks.time), ("groups", self.blocks.groups))
        return " and ".join(name for name, column in given if column is not None) or None

    @property
    def in_order(self) -> bool:
        """Whether the blocks follow one another in time."""
        return self.blocks.time is not None


@dataclass(frozen=True)
class Split:
    """Numbers of the rows to fit on and of the rows held out."""

    train: RowNumbers
    held_out: RowNumbers


def make_splits(rows: SplitRows, cv: Any, seed: int) -> list[Split]:
    """Splits of the rows that count.

    ``cv`` is a number of folds, a scikit-learn splitter or a list of splits. Where the rows have blocks, folds are
    whole blocks of about equal weight: contiguous stretches of time, or random groups; with both, stretches of time,
    and rows of a group are held out in one of them, which is then fitted on none of the group's.
    """
    counted = rows.weight > 0
    if isinstance(cv, int | float | np.integer) and not isinstance(cv, bool):
        splits = _parts(rows, np.flatnonzero(counted), cv, seed)
    else:
        splits = [Split(train[counted[train]], held_out[counted[held_out]]) for train, held_out in _given(cv, rows)]
    for number, split in enumerate(splits, start=1):
        _check(split, number, rows.code)
    return splits


def blocks_are_whole(splits: list[Split], block: BlockNumbers) -> bool:
    """Whether no split has rows of one block, be it of time or a group, on both of its sides."""
    of_each_kind = block.reshape(len(block), -1).T
    return not any(
        np.isin(np.unique(number[split.held_out]), number[split.train]).any()
        for number in of_each_kind
        for split in splits
    )


def out_of_order(cv: Any, splits: list[Split], rows: SplitRows) -> list[str]:
    """One message where rows to hold out one stretch after the other are not in the order of time."""
    if rows.block is None or not isinstance(cv, TimeSeriesSplit) or not rows.in_order:
        return []
    block = time_or_group(rows.block)
    if all(block[split.train].max() <= block[split.held_out].min() for split in splits):
        return []
    return [f"cv={cv!r} takes rows as they stand, and these are not in the order of time: sort them by time first"]


def _parts(rows: SplitRows, counted: RowNumbers, n_folds: Any, seed: int) -> list[Split]:
    """Folds of the rows that count: with rows of every class in each by what they hold, or of whole blocks."""
    if rows.block is None:
        fold = cross_validation_folds(row_keys(rows.columns.take(counted), seed), rows.code[counted], n_folds)
        sides = [(fold != k, fold == k) for k in np.unique(fold)]
    else:
        block = rows.block[counted]
        refuse_few_blocks(block, n_folds)
        found = row_blocks(block, rows.weight[counted], int(n_folds), seed, rows.blocks.options)
        sides = [(found.trained_on(k), found.held_out(k)) for k in range(int(n_folds))]
    return [Split(counted[train], counted[held_out]) for train, held_out in sides]


def _given(cv: Any, rows: SplitRows) -> list[tuple[RowNumbers, RowNumbers]]:
    """The splits of a splitter or of a list; a splitter by groups is handed the blocks."""
    if isinstance(cv, str | bool):
        raise ParameterError(f"cv must be a number of folds, a splitter or a list of splits, got {cv!r}")
    try:
        with warnings.catch_warnings():
            # Who gave time knows nothing of groups; whether blocks stay whole is checked afterwards.
            warnings.filterwarnings("ignore", "The groups parameter is ignored", UserWarning)
            splitter = check_cv(cv, rows.code, classifier=True)
            groups = rows.block if rows.block is None or rows.block.ndim == 1 else rows.block[:, 1]
            found = list(splitter.split(np.zeros((len(rows.code), 1)), rows.code, groups))
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
