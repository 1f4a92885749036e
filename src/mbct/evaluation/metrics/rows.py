"""The rows a metric looks at, checked once."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mbct.errors import ParameterError
from mbct.stats.divisions import Bins, atoms_by_prediction, atoms_of_sorted, by_group, rows_as_bins, uniform_mass
from mbct.stats.scores import Decomposition, brier_decomposition, log_loss_of_rows
from mbct.training.blocks import BlockNumbers
from mbct.validation import FloatArray, as_binary_labels, as_probabilities, as_weights, same_length

ECE_BINS = 15
"""Bins of the errors over bins, where their number is not given."""


@dataclass(frozen=True)
class Rows:
    """Predictions, labels, weights (none of them 0) and, for metrics over segments, columns of group numbers."""

    y_prob: FloatArray
    y_true: FloatArray
    weight: FloatArray
    groups: tuple[npt.NDArray[np.int64], ...] = ()
    blocks: BlockNumbers | None = None
    """Number of the block of rows that each belongs to, which are resampled together; None where rows stand alone."""

    def __len__(self) -> int:
        return len(self.y_prob)

    @cached_property
    def atoms(self) -> Bins:
        """Rows of equal prediction joined, ascending."""
        return atoms_by_prediction(self.y_prob, self.y_true, self.weight)

    @cached_property
    def bins(self) -> Bins:
        """Every row a bin."""
        return rows_as_bins(self.y_prob, self.y_true, self.weight)

    @cached_property
    def whole(self) -> Bins:
        """All rows as one bin."""
        return Bins(*(np.asarray([sums.sum()]) for sums in (self.bins.count, self.bins.label, self.bins.pred)))

    @cached_property
    def log_loss(self) -> float:
        """Mean log loss."""
        return log_loss_of_rows(self.y_prob, self.y_true, self.weight)

    @cached_property
    def decomposition(self) -> Decomposition:
        """Parts of the Brier score."""
        return brier_decomposition(self.atoms)

    @cached_property
    def default_bins(self) -> Bins:
        """The uniform-mass bins that errors over bins take by default."""
        return uniform_mass(self.atoms, ECE_BINS)

    def values(self, field: int, n_values: int) -> Bins:
        """Sums of each group of the ``field``-th column."""
        return by_group(self.bins, self.groups[field], n_values)

    def take(self, index: npt.NDArray[Any]) -> Self:
        """The rows at ``index`` (numbers or a mask)."""
        groups = tuple(group[index] for group in self.groups)
        blocks = None if self.blocks is None else self.blocks[index]
        return type(self)(self.y_prob[index], self.y_true[index], self.weight[index], groups, blocks)

    def in_one_order(self) -> "OrderedRows":
        """The same rows by prediction, weight, groups and label, whatever their order was."""
        blocks = () if self.blocks is None else (self.blocks,)
        rows = self.take(np.lexsort((self.y_true, *blocks, *self.groups, self.weight, self.y_prob)))
        return OrderedRows(rows.y_prob, rows.y_true, rows.weight, rows.groups, rows.blocks)

    def with_weight(self, weight: FloatArray) -> Self:
        """Other weights; rows that have none left are dropped."""
        return replace(self, weight=weight).take(weight > 0)

    def with_labels(self, y_true: FloatArray) -> Self:
        """Other labels."""
        return replace(self, y_true=y_true)


@dataclass(frozen=True)
class OrderedRows(Rows):
    """Rows in ascending order of prediction, which masks leave in order: nothing is sorted again for each resample."""

    @cached_property
    def atoms(self) -> Bins:
        """Rows of equal prediction joined, ascending."""
        return atoms_of_sorted(self.y_prob, self.y_true, self.weight)


def read_rows(
    y_true: Any,
    y_prob: Any,
    sample_weight: Any = None,
    groups: tuple[npt.NDArray[np.int64], ...] = (),
    blocks: BlockNumbers | None = None,
) -> Rows:
    """Check labels, predictions and weights and drop the rows of no weight."""
    labels = as_binary_labels(y_true)
    probabilities = as_probabilities(y_prob)
    same_length(len(labels), y_prob=probabilities)
    for group in groups:
        same_length(len(labels), by=group)
    if blocks is not None:
        same_length(len(labels), blocks=blocks)
    rows = Rows(probabilities, labels, as_weights(sample_weight, len(labels)), groups, blocks)
    rows = rows if (rows.weight > 0).all() else rows.take(rows.weight > 0)
    if rows.blocks is None:
        return rows
    return replace(rows, blocks=np.unique(rows.blocks, return_inverse=True)[1].astype(np.int32))


def check_count(name: str, value: Any, least: int = 1) -> int:
    """A whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ParameterError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def check_norm(norm: Any, *, allow_infinite: bool = True) -> float:
    """A norm p ≥ 1."""
    most = "or math.inf" if allow_infinite else "and finite"
    if not isinstance(norm, int | float) or not norm >= 1 or (not allow_infinite and norm == float("inf")):
        raise ParameterError(f"norm must be a number of at least 1 {most}, got {norm!r}")
    return float(norm)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """One of the words in ``choices``."""
    if value not in choices:
        raise ParameterError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return str(value)
