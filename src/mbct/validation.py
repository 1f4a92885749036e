"""One check of user input, at the public entry: columns, probabilities, weights and the classes of labels.

What lies beneath trusts its arrays. Every message names the argument, the offending value and its row, and the remedy.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.errors import DataError, DataTypeError, ParameterError

FloatArray = npt.NDArray[np.float64]
SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-30, 1e30
"""Sums of squares of such weights are still floats."""


def as_column(values: Any, name: str) -> npt.NDArray[Any]:
    """A one-dimensional numpy array of any array-like, pandas, polars or pyarrow column."""
    array = values if isinstance(values, np.ndarray) else np.asarray(_to_numpy(values))
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"{name} must be one-dimensional, got shape {array.shape}; pass a single column")
    if len(array) == 0:
        raise DataError(f"{name} is empty: at least one row is needed")
    return array


def as_probabilities(values: Any, name: str = "y_prob") -> FloatArray:
    """Float64 probabilities in [0, 1], without NaN."""
    array = _as_float(as_column(values, name), name)
    _refuse(np.isnan(array), array, name, "is not a number (NaN)", "drop or fill the missing predictions first")
    _refuse(
        (array < 0) | (array > 1), array, name, "lies outside [0, 1]", "pass probabilities, not log-odds or percentages"
    )
    return array


def as_binary_labels(values: Any, name: str = "y_true") -> FloatArray:
    """Float64 labels that are 0 or 1 (booleans count)."""
    column = as_column(values, name)
    array = _as_float(column, name)
    _refuse(np.isnan(array), array, name, "is missing", "drop the rows without a label")
    _refuse((array != 0) & (array != 1), array, name, "is neither 0 nor 1", "map the two classes to 0 and 1")
    return array


def as_weights(values: Any, n_rows: int, name: str = "sample_weight") -> FloatArray:
    """Float64 weights, finite and not negative; all ones where ``values`` is None."""
    if values is None:
        return np.ones(n_rows)
    array = (
        np.full(n_rows, float(values)) if isinstance(values, int | float) else _as_float(as_column(values, name), name)
    )
    same_length(n_rows, **{name: array})
    _refuse(~np.isfinite(array), array, name, "is not finite", "give every row a finite weight")
    _refuse(array < 0, array, name, "is negative", "weights count rows: use 0 to leave a row out")
    _refuse(
        (array > LARGEST_WEIGHT) | ((array > 0) & (array < SMALLEST_WEIGHT)),
        array,
        name,
        "is too large or too small to be summed",
        f"scale the weights to lie between {SMALLEST_WEIGHT:g} and {LARGEST_WEIGHT:g}",
    )
    if not array.any():
        raise DataError(f"{name} is zero for every row: at least one row must count")
    return array


def at_least(smallest: float, **parameters: Any) -> None:
    """Raise unless every parameter is a number that is no smaller.

    >>> at_least(1, n_bins=0)
    Traceback (most recent call last):
        ...
    mbct.errors.ParameterError: n_bins must be a number of at least 1, got 0
    """
    for name, value in parameters.items():
        number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
        if not (number and value >= smallest):
            raise ParameterError(f"{name} must be a number of at least {smallest:g}, got {value!r}")


def thread_count(n_threads: int | None) -> int:
    """Number of threads to use: as asked for, or one for each processor of this process."""
    if n_threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_threads < 1:
        raise ParameterError(f"n_threads={n_threads!r} must be at least 1, or None for all processors")
    return int(n_threads)


def same_length(n_rows: int, **columns: npt.NDArray[Any]) -> None:
    """Raise unless every column has ``n_rows`` rows."""
    for name, column in columns.items():
        if len(column) != n_rows:
            raise DataError(f"{name} has {len(column):,} rows where {n_rows:,} were expected: lengths must be equal")


def _to_numpy(values: Any) -> Any:
    to_numpy = getattr(values, "to_numpy", None)
    if to_numpy is None:
        return values
    try:
        return to_numpy()
    except (TypeError, ValueError):
        return to_numpy(zero_copy_only=False)


def _as_float(column: npt.NDArray[Any], name: str) -> FloatArray:
    if column.dtype.kind == "c":
        raise DataError(f"Complex data not supported: {name} is complex; pass real numbers")
    try:
        return np.ascontiguousarray(column, dtype=np.float64)
    except (TypeError, ValueError) as error:
        row, value = next(((i, v) for i, v in enumerate(column.tolist()) if not _is_number(v)), (0, None))
        if not isinstance(value, str):
            fault = f"{name} must be numeric (argument must be a string or a number), but row {row} is {value!r}"
            raise DataTypeError(f"{fault}; convert the column first") from error
        raise DataError(f"{name} must be numeric, but row {row} is {value!r}; convert the column first") from error


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _refuse(bad: npt.NDArray[np.bool_], array: FloatArray, name: str, fault: str, remedy: str) -> None:
    if bad.any():
        row = int(bad.argmax())
        more = int(bad.sum()) - 1
        others = f" (and {more:,} more)" if more else ""
        raise DataError(f"{name} {fault}: {array[row]:g} in row {row}{others}; {remedy}")


@dataclass(frozen=True)
class ClassLabels:
    """The two classes of a label, sorted, and which of them is the positive one."""

    classes: npt.NDArray[Any] = field(default_factory=lambda: np.array([0, 1]))
    positive: int = 1

    @property
    def negative_and_positive(self) -> npt.NDArray[Any]:
        """The negative class, then the positive one."""
        return self.classes if self.positive == 1 else self.classes[::-1]

    def encode(self, labels: npt.NDArray[Any], name: str = "y") -> FloatArray:
        """1.0 for the positive class, 0.0 for the other; any other label is an error."""
        code = class_labels(labels, name, self.classes)[1]
        return np.asarray(code == self.positive, dtype=np.float64)


def binary_classes(
    labels: npt.NDArray[Any], name: str, positive: Any = None, *, one_class: bool = False
) -> ClassLabels:
    """The two classes of ``labels``; the positive one is the second in sorted order unless ``positive`` names it.

    >>> binary_classes(np.array(["no", "yes", "no"]), "y").classes.tolist()
    ['no', 'yes']
    >>> binary_classes(np.array(["bad", "good"]), "y", positive="bad").positive
    0
    """
    present, _ = class_labels(labels, name)
    fractions = [v for v in present.tolist() if isinstance(v, float) and not v.is_integer()]
    if fractions:
        raise DataError(
            f"Unknown label type: {name} holds {fractions[0]:g}, which is no class but a number; labels must be classes"
        )
    zero_one = all(value in (0, 1) for value in present.tolist())
    if len(present) == 1 and not (one_class and zero_one):
        value = repr(present[0]) if present.dtype.kind in "OU" else f"{present[0]:g}"
        raise DataError(
            f"the label is {value} in every row: both classes are needed to see a bias, not one class; "
            "widen the sample or check the label column"
        )
    # 0 and 1 of whatever type are one pair of classes, so that a model does not depend on the type of the column.
    classes = np.array([0, 1], dtype=np.bool_ if present.dtype.kind == "b" else None) if zero_one else present
    if len(classes) > 2:
        raise DataError(
            f"Only binary classification is supported. {name} has {len(classes)} classes ({listed(classes)}): "
            "use MulticlassCalibrator, or map the classes to 0 and 1"
        )
    if positive is None:
        return ClassLabels(classes)
    if positive not in classes.tolist():
        raise DataError(f"positive={positive!r} is not among the classes of {name}: {listed(classes)}")
    return ClassLabels(classes, classes.tolist().index(positive))


def class_labels(
    labels: npt.NDArray[Any], name: str, classes: Sequence[Any] | npt.NDArray[Any] | None = None
) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp]]:
    """Classes of labels of any type, sorted or as given, and the position among them of each label.

    >>> class_labels(np.array(["no", "yes", "no"]), "y")[1].tolist()
    [0, 1, 0]
    """
    _refuse_missing_labels(labels, name)
    try:
        present, code = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise DataError(f"{name} mixes types that cannot be sorted: make all labels text or all numbers") from error
    if classes is None:
        return present, code
    order = np.asarray(classes)
    position = {value: k for k, value in enumerate(order.tolist())}
    unknown = [value for value in present.tolist() if value not in position]
    if unknown:
        raise DataError(f"{name} holds {unknown[0]!r}, which is not among the classes {order.tolist()!r}")
    return order, np.array([position[value] for value in present.tolist()], dtype=np.intp)[code]


def listed(classes: npt.NDArray[Any]) -> str:
    """Classes for a message, the first eight of them."""
    return ", ".join(map(repr, classes.tolist()[:8])) + (" …" if len(classes) > 8 else "")


def _refuse_missing_labels(labels: npt.NDArray[Any], name: str) -> None:
    if labels.dtype.kind == "f":
        missing: npt.NDArray[Any] = ~np.isfinite(labels)
    elif labels.dtype.kind == "O":
        missing = np.fromiter((v is None or v != v for v in labels.tolist()), np.bool_, len(labels))
    else:
        return
    if missing.any():
        row = int(missing.argmax())
        more = f" (and {int(missing.sum()) - 1:,} more)" if missing.sum() > 1 else ""
        raise DataError(f"{name} is missing: {labels[row]} in row {row}{more}; drop the rows without a label")
