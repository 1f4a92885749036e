"""What ``fit`` and ``predict`` were given, checked once and turned into arrays."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mbct.engines.columns import Columns, column_name, read_columns
from mbct.errors import DataError
from mbct.validation import FloatArray, as_binary_labels, as_probabilities, as_weights, same_length


@dataclass(frozen=True)
class TrainingData:
    """Rows to fit on: the columns (label taken out), the prediction, the label and the weight of each."""

    columns: Columns
    score: str
    y_prob: FloatArray
    y_true: FloatArray
    weight: FloatArray


def training_data(
    X: Any, y: Any, sample_weight: Any, y_prob: Any, score: str | int | None, *, one_class: bool = False
) -> TrainingData:
    """Check and align everything ``fit`` received.

    ``y`` may name the label column of ``X`` and ``sample_weight`` the weight column; ``y_prob`` stands for a
    score that is no column. ``one_class`` allows labels that are all equal.
    """
    columns = read_columns(X)
    if y is None:
        raise DataError("y is missing: pass the labels, or the name of the label column")
    if isinstance(y, str):
        label = y
        y = columns.numpy(label)
        columns = columns.without(label)
        y_true = as_binary_labels(y, f"label column {label!r}")
    else:
        y_true = as_binary_labels(y, "y")
    if isinstance(sample_weight, str):
        name = sample_weight
        sample_weight = columns.numpy(name)
        columns = columns.without(name)
    weight = as_weights(sample_weight, columns.n_rows)
    score_name, probability = scores(columns, score, y_prob)
    same_length(columns.n_rows, y=y_true)
    if not one_class:
        _refuse_one_class(y_true[weight > 0])
    return TrainingData(columns, score_name, probability, y_true, weight)


def scores(columns: Columns, score: str | int | None, y_prob: Any = None) -> tuple[str, FloatArray]:
    """Name and values of the prediction to calibrate."""
    if y_prob is not None:
        probability = as_probabilities(y_prob, "y_prob")
        same_length(columns.n_rows, y_prob=probability)
        return ("y_prob" if score is None else column_name(score)), probability
    if score is None:
        if len(columns.names) > 1:
            raise DataError(
                "which column holds the prediction? pass score='name' (or y_prob=…); "
                f"the data has {', '.join(map(repr, columns.names[:12]))}"
            )
        name = columns.names[0]
    else:
        name = column_name(score)
    return name, as_probabilities(columns.numpy(name), f"score column {name!r}")


def _refuse_one_class(y_true: FloatArray) -> None:
    if len(y_true) and np.all(y_true == y_true[0]):
        raise DataError(
            f"the label is {y_true[0]:g} in every row: both classes are needed to see a bias; "
            "widen the sample or check the label column"
        )
