"""What ``fit`` and ``predict`` were given, checked once and turned into arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.data.columns import Columns, column_name, read_columns
from mbct.errors import DataError
from mbct.validation import FloatArray, as_binary_labels, as_column, as_probabilities, as_weights, same_length


@dataclass(frozen=True)
class TrainingData:
    """Rows to fit on: the columns (label taken out), the prediction, the label and the weight of each."""

    columns: Columns
    score: str
    y_prob: FloatArray
    y_true: FloatArray
    weight: FloatArray

    def counted(self) -> "TrainingData":
        """The rows whose weight is not zero: a row of weight 0 leaves no trace."""
        counted = self.weight > 0
        return self if counted.all() else self.take(np.flatnonzero(counted))

    def take(self, rows: npt.NDArray[np.intp]) -> "TrainingData":
        """The rows whose numbers are given."""
        return TrainingData(
            self.columns.take(rows), self.score, self.y_prob[rows], self.y_true[rows], self.weight[rows]
        )


def training_data(
    X: Any, y: Any, sample_weight: Any, y_prob: Any, score_column: str | int | None, *, one_class: bool = False
) -> TrainingData:
    """Check and align everything ``fit`` received.

    ``y`` may name the label column of ``X`` and ``sample_weight`` the weight column; ``y_prob`` stands for a
    score that is no column. ``one_class`` allows labels that are all equal.
    """
    columns, labels, label_name = take_labels(read_columns(X), y)
    y_true = as_binary_labels(labels, label_name)
    columns, weight = take_weights(columns, sample_weight)
    score_name, probability = scores(columns, score_column, y_prob)
    same_length(columns.n_rows, y=y_true)
    if not one_class:
        _refuse_one_class(y_true[weight > 0])
    return TrainingData(columns, score_name, probability, y_true, weight)


def take_labels(columns: Columns, y: Any) -> tuple[Columns, npt.NDArray[Any], str]:
    """Columns without the label, the label, and what to call it in messages; ``y`` may name a column."""
    if y is None:
        raise DataError("y is missing: pass the labels, or the name of the label column")
    if isinstance(y, str):
        return columns.without(y), as_column(columns.numpy(y), f"label column {y!r}"), f"label column {y!r}"
    return columns, as_column(y, "y"), "y"


def take_weights(columns: Columns, sample_weight: Any) -> tuple[Columns, FloatArray]:
    """Columns without the weight, and the weight of each row; ``sample_weight`` may name a column."""
    if isinstance(sample_weight, str):
        name = sample_weight
        return columns.without(name), as_weights(columns.numpy(name), columns.n_rows, f"weight column {name!r}")
    return columns, as_weights(sample_weight, columns.n_rows)


def class_labels(
    labels: npt.NDArray[Any], name: str, classes: Sequence[Any] | None = None
) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp]]:
    """Classes of labels of any type, sorted or as given, and the position among them of each label.

    >>> class_labels(np.array(["no", "yes", "no"]), "y")[1].tolist()
    [0, 1, 0]
    """
    try:
        present, code = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise DataError(f"{name} mixes types that cannot be sorted: make all labels text or all numbers") from error
    missing = [v for v in present.tolist() if v is None or v != v]
    if missing:
        raise DataError(f"{name} holds a missing value ({missing[0]}): drop the rows without a label")
    if classes is None:
        return present, code
    order = np.asarray(classes)
    position = {value: k for k, value in enumerate(order.tolist())}
    unknown = [value for value in present.tolist() if value not in position]
    if unknown:
        raise DataError(f"{name} holds {unknown[0]!r}, which is not among the classes {order.tolist()!r}")
    return order, np.array([position[value] for value in present.tolist()], dtype=np.intp)[code]


def scores(columns: Columns, score_column: str | int | None, y_prob: Any = None) -> tuple[str, FloatArray]:
    """Name and values of the prediction to calibrate."""
    if y_prob is not None:
        probability = as_probabilities(y_prob, "y_prob")
        same_length(columns.n_rows, y_prob=probability)
        return ("y_prob" if score_column is None else column_name(score_column)), probability
    if score_column is None:
        if len(columns.names) > 1:
            raise DataError(
                "which column holds the prediction? pass score_column='name' (or y_prob=…); "
                f"the data has {', '.join(map(repr, columns.names[:12]))}"
            )
        name = columns.names[0]
    else:
        name = column_name(score_column)
    return name, as_probabilities(columns.numpy(name), f"score column {name!r}")


def _refuse_one_class(y_true: FloatArray) -> None:
    if len(y_true) and np.all(y_true == y_true[0]):
        raise DataError(
            f"the label is {y_true[0]:g} in every row: both classes are needed to see a bias; "
            "widen the sample or check the label column"
        )
