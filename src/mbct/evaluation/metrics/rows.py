"""The rows a metric looks at, and columns as segments of them, checked once."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from mbct.data.blocks import number_blocks
from mbct.data.columns import factorize, read_columns
from mbct.errors import DataError, ParameterError
from mbct.evaluation.metrics.calibration_curve import curve_distances
from mbct.stats.divisions import Bins, atoms_by_prediction, atoms_of_sorted, by_group, rows_as_bins, uniform_mass
from mbct.stats.probabilities import (
    Decomposition,
    brier_decomposition,
    brier_of_atoms,
    entropy_ratio,
    isotonic_rates,
    log_loss_decomposition,
    log_loss_of_atoms,
)
from mbct.training.folds import BlockColumns, BlockNumbers, time_or_group
from mbct.validation import FloatArray, as_binary_labels, as_column, as_probabilities, as_weights, same_length

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
    in_order: bool = False
    """Whether blocks follow one another in time."""

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
        return Bins(*(np.asarray([sums.sum()]) for sums in (self.atoms.count, self.atoms.label, self.atoms.pred)))

    @property
    def label_rate(self) -> float:
        """Share of positives."""
        return float(self.whole.label[0] / self.whole.count[0])

    @cached_property
    def log_loss(self) -> float:
        """Mean log loss."""
        return log_loss_of_atoms(self.atoms)

    @property
    def normalised_entropy(self) -> float:
        """Log loss over that of the label rate."""
        return entropy_ratio(self.log_loss, self.label_rate)

    @cached_property
    def brier(self) -> float:
        """Brier score."""
        return brier_of_atoms(self.atoms)

    @cached_property
    def decomposition(self) -> Decomposition:
        """Parts of the Brier score."""
        return brier_decomposition(self.atoms, isotonic_rates(self.atoms))

    @cached_property
    def log_loss_parts(self) -> Decomposition:
        """Parts of the log loss."""
        return log_loss_decomposition(self.atoms, self.log_loss)

    @cached_property
    def curve_distances(self) -> tuple[float, float, float]:
        """ICI, E50 and E90."""
        return curve_distances(self.atoms)

    @cached_property
    def default_bins(self) -> Bins:
        """The uniform-mass bins that errors over bins take by default."""
        return uniform_mass(self.atoms, ECE_BINS)

    def values(self, field: int, n_values: int) -> Bins:
        """Sums of each group of the ``field``-th column."""
        if field not in self._values:
            self._values[field] = by_group(self.bins, self.groups[field], n_values)
        return self._values[field]

    @cached_property
    def _values(self) -> dict[int, Bins]:
        return {}

    def take(self, index: npt.NDArray[Any]) -> Self:
        """The rows at ``index`` (numbers or a mask)."""
        groups = tuple(group[index] for group in self.groups)
        blocks = None if self.blocks is None else self.blocks[index]
        return type(self)(self.y_prob[index], self.y_true[index], self.weight[index], groups, blocks, self.in_order)

    def in_one_order(self) -> "OrderedRows":
        """The same rows by prediction, weight, groups and label, whatever their order was."""
        blocks = () if self.blocks is None else (self.blocks,)
        return self.by_prediction(np.lexsort((self.y_true, *blocks, *self.groups, self.weight, self.y_prob)))

    def by_prediction(self, order: npt.NDArray[np.intp]) -> "OrderedRows":
        """The same rows in an ``order`` in which their predictions ascend."""
        rows = self.take(order)
        return OrderedRows(rows.y_prob, rows.y_true, rows.weight, rows.groups, rows.blocks, rows.in_order)


@dataclass(frozen=True)
class OrderedRows(Rows):
    """Rows in ascending order of prediction, which masks leave in order: nothing is sorted again for each resample."""

    def drawn(self, times: npt.NDArray[np.integer]) -> "Resample":
        """Every row as many ``times`` as its block, or where rows stand alone as itself."""
        weight = self.weight * (times if self.blocks is None else times[self.blocks])
        return Resample(self.y_prob, self.y_true, weight, self.groups, self.blocks, self.in_order, of=self, times=times)

    def block_sums(self, field: int, n_values: int) -> tuple[Any, ...]:
        """Weight, positives and predicted positives of each group of a column in each block, as sparse matrices."""
        if field not in self._block_sums:
            place = (self.groups[field], np.zeros(len(self), dtype=np.int32) if self.blocks is None else self.blocks)
            shape, bins = (n_values, int(place[1].max(initial=-1)) + 1), self.bins
            sums = (bins.count, bins.label, bins.pred)
            self._block_sums[field] = tuple(csr_array((each, place), shape) for each in sums)
        return self._block_sums[field]

    @cached_property
    def _block_sums(self) -> dict[int, tuple[Any, ...]]:
        return {}

    @cached_property
    def atoms(self) -> Bins:
        """Rows of equal prediction joined, ascending."""
        return atoms_of_sorted(self.y_prob, self.y_true, self.weight)


@dataclass(frozen=True)
class Resample(OrderedRows):
    """Rows ``of`` which each block was drawn a number of ``times``; sums over values are those of the blocks."""

    of: OrderedRows = field(kw_only=True)
    times: npt.NDArray[np.integer] = field(kw_only=True)

    def values(self, field: int, n_values: int) -> Bins:
        """Sums of each group of the ``field``-th column."""
        if self.blocks is None:
            return super().values(field, n_values)
        return Bins(*(sums @ self.times for sums in self.of.block_sums(field, n_values)))


def read_rows(
    y_true: Any,
    y_prob: Any,
    sample_weight: Any = None,
    groups: tuple[npt.NDArray[np.int64], ...] = (),
    together: BlockColumns | None = None,
) -> Rows:
    """Check labels, predictions, weights and which rows belong ``together``, and drop the rows of no weight."""
    labels = as_binary_labels(y_true)
    probabilities = as_probabilities(y_prob)
    same_length(len(labels), y_prob=probabilities)
    for group in groups:
        same_length(len(labels), by=group)
    rows = Rows(probabilities, labels, as_weights(sample_weight, len(labels)), groups)
    if together is not None:
        blocks, in_order = blocks_of_rows(len(labels), together)
        rows = replace(rows, blocks=blocks, in_order=in_order)
    rows = rows if (rows.weight > 0).all() else rows.take(rows.weight > 0)
    if rows.blocks is None:
        return rows
    return replace(rows, blocks=np.unique(rows.blocks, return_inverse=True)[1].astype(np.int32))


def blocks_of_rows(n_rows: int, together: BlockColumns) -> tuple[BlockNumbers | None, bool]:
    """Block of each row by arrays of time and groups, None where none are given; and whether blocks are in order."""
    if not together.given:
        return None, False
    given = {"time": together.time, "groups": together.groups}
    same_length(n_rows, **{name: column for name, column in given.items() if column is not None})
    number = time_or_group(number_blocks(together.time, together.groups, together.block))
    return number, together.options.kind == "time"


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


def check_confidence(confidence: float | None) -> float:
    """A level strictly between 0 and 1."""
    if confidence is None or not 0.0 < confidence < 1.0:
        raise ParameterError(f"confidence must lie between 0 and 1, for example 0.95, got {confidence!r}")
    return float(confidence)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """One of the words in ``choices``."""
    if value not in choices:
        raise ParameterError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return str(value)


MOST_NUMBERS = 100
"""A column of fractions with more distinct values than this is cut into quantiles."""
QUANTILES = 10
MISSING = "(missing)"


@dataclass(frozen=True)
class Segmentation:
    """One column: group numbers 0 … len − 1 of the rows, and the groups' names."""

    name: str
    codes: npt.NDArray[np.int64]
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)


def read_segments(by: Any) -> tuple[Segmentation, ...]:
    """Every column of a frame, a mapping or an array; a single column is called by its name, else ``segment``."""
    if _is_single_column(by):
        name = getattr(by, "name", None)
        return (segment(as_column(by, "by"), name if isinstance(name, str) and name else "segment"),)
    columns = read_columns(by)
    return tuple(segment(columns.numpy(name), name) for name in columns.names)


def read_one_column(by: Any, argument: str) -> Segmentation:
    """The segments of a single column."""
    segmentations = read_segments(by)
    if len(segmentations) != 1:
        raise DataError(f"{argument} must be one column, got {len(segmentations)}; choose one, or join them first")
    return segmentations[0]


def segment(column: npt.NDArray[Any], name: str) -> Segmentation:
    """Group rows by value; missing values are a group of their own, fractions of many values fall into ten quantiles.

    >>> segment(np.array(["b", "a", None, "b"], dtype=object), "site").codes.tolist()
    [1, 0, 2, 1]
    """
    missing = missing_values(column)
    present = column[~missing]
    if column.dtype.kind == "f" and _is_continuous(present):
        codes, labels = _quantiles(present)
    else:
        codes, labels = _by_value(present)
    every = np.full(len(column), len(labels), dtype=np.int64)
    every[~missing] = codes
    return Segmentation(name, every, (*labels, MISSING) if missing.any() else labels)


def _is_single_column(by: Any) -> bool:
    if isinstance(by, dict) or hasattr(by, "columns") or hasattr(by, "column_names"):
        return False
    shape = getattr(by, "shape", None)
    if shape is not None:
        return len(shape) == 1
    return isinstance(by, list | tuple) and not any(isinstance(value, list | tuple | np.ndarray) for value in by)


def missing_values(column: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which values are None, not a number or no time.

    >>> missing_values(np.array([1, None, float("nan")], dtype=object)).tolist()
    [False, True, True]
    """
    if column.dtype.kind in "fmM":
        return np.asarray(column != column, dtype=np.bool_)
    if column.dtype.kind == "O":
        distinct, position = factorize(column)
        return np.fromiter(map(_is_missing, distinct), np.bool_, len(distinct))[position]
    return np.zeros(len(column), dtype=np.bool_)


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(value != value)


def _is_continuous(values: npt.NDArray[Any]) -> bool:
    return bool(np.any(values != np.floor(values))) and len(np.unique(values)) > MOST_NUMBERS


def _quantiles(values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    edges = np.unique(np.quantile(values, np.arange(1, QUANTILES) / QUANTILES))
    codes = np.searchsorted(edges, values)
    names = [f"≤ {edges[0]:.6g}", *(f"{low:.6g} to {high:.6g}" for low, high in pairwise(edges))]
    return codes.astype(np.int64), (*names, f"> {edges[-1]:.6g}")


def _by_value(values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    if values.dtype.kind != "O":
        distinct, codes = np.unique(values, return_inverse=True)
        return codes.astype(np.int64), tuple(_name(value) for value in distinct)
    listed = values.tolist()
    order = sorted(set(listed), key=lambda value: (type(value).__name__, value))
    number = {value: i for i, value in enumerate(order)}
    return np.fromiter((number[value] for value in listed), np.int64, len(listed)), tuple(map(_name, order))


def _name(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:g}"
    return str(value)
