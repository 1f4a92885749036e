"""Metrics of many classes: over all rows, and of each class against the rest."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.errors import DataError
from mbct.evaluation.metrics.evaluation import METRICS, Evaluation
from mbct.evaluation.metrics.multicalibration import ALL_ROWS
from mbct.evaluation.metrics.results import Table
from mbct.evaluation.metrics.rows import Rows, read_rows
from mbct.validation import FloatArray, as_column, as_probabilities, as_weights, same_length

BY_CLASS = ("label_rate", "mean_prediction", "pcoc", "log_loss", "brier", "auc", "ece", "mvce")
"""Metrics of each class against the rest."""


def evaluate_classes(
    y_true: Any, y_prob: Any, *, classes: Sequence[Any] | None = None, sample_weight: Any = None
) -> Evaluation:
    """Metrics of predictions of many classes.

    Over all rows: log loss, Brier score Σ_k (p_k − 1[y = k])², accuracy, mean confidence, top-label ECE (the likeliest
    class's probability against whether it was right), class-wise ECE and MVCE (means over classes). Then each class
    against the rest, with the metrics of two classes. ECE has 15 uniform-mass bins, MVCE is the closed form.

    Parameters
    ----------
    y_true : array of shape (n_rows,)
        Labels of any type.
    y_prob : array of shape (n_rows, K)
        Predicted probabilities, one column for each class.
    classes : sequence or None, default=None
        Labels in the order of the columns; None sorts them.
    sample_weight : array, number or None, default=None
        Weights of the rows; None counts each row once.

    Returns
    -------
    evaluation : Evaluation
        ``segments`` holds all rows first, then each class; metrics that one of them does not have are nan.

    Examples
    --------
    >>> p = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.6, 0.3, 0.1]]
    >>> found = evaluate_classes(["a", "b", "c", "b"], p).overall
    >>> round(found["log_loss"], 4), found["accuracy"]
    (0.5737, 0.75)
    """
    labels, p = as_column(y_true, "y_true"), np.asarray(y_prob, dtype=np.float64)
    names = np.unique(labels) if classes is None else np.asarray(classes)
    if p.ndim != 2 or p.shape[1] != len(names):
        raise DataError(
            f"y_prob has shape {p.shape}, but there are {len(names)} classes: pass one column for each class, and "
            "classes=… where a class is missing from the labels"
        )
    same_length(len(labels), y_prob=p)
    p = np.column_stack([as_probabilities(p[:, k], f"y_prob[:, {k}]") for k in range(len(names))])
    hit = labels[:, None] == names[None, :]
    if not hit.any(axis=1).all():
        raise DataError(
            f"y_true holds {labels[~hit.any(axis=1)].tolist()[0]!r}, which is not among the classes {names.tolist()!r}"
        )
    weight = as_weights(sample_weight, len(labels))
    each = [read_rows(hit[:, k].astype(np.float64), p[:, k], weight) for k in range(len(names))]
    found = [_overall(p, hit, weight, each), *({m: METRICS[m](rows) for m in BY_CLASS} for rows in each)]
    metrics = list(dict.fromkeys(name for one in found for name in one))
    counts = [float(weight.sum()), *(float(np.sum(weight * hit[:, k])) for k in range(len(names)))]
    columns: list[tuple[str, tuple[Any, ...]]] = [
        ("field", ("", *("class" for _ in names))),
        ("segment", (ALL_ROWS, *map(str, names.tolist()))),
        ("count", tuple(counts)),
        *((name, tuple(one.get(name, float("nan")) for one in found)) for name in metrics),
    ]
    return Evaluation(
        Table(tuple(columns)), None, None, ("each class against the rest; its count is that of its label",)
    )


def _overall(p: FloatArray, hit: npt.NDArray[np.bool_], weight: FloatArray, each: list[Rows]) -> dict[str, float]:
    given = np.clip(p[hit], np.finfo(np.float64).eps, 1.0)
    top = p.argmax(axis=1)
    right = hit[np.arange(len(top)), top].astype(np.float64)
    likeliest = read_rows(right, np.clip(p.max(axis=1), 0.0, 1.0), weight)
    return {
        "log_loss": float(np.average(-np.log(given), weights=weight)),
        "brier": float(np.average(np.sum((p - hit) ** 2, axis=1), weights=weight)),
        "accuracy": float(np.average(right, weights=weight)),
        "mean_confidence": METRICS["mean_prediction"](likeliest),
        "top_label_ece": METRICS["ece"](likeliest),
        "classwise_ece": float(np.mean([METRICS["ece"](rows) for rows in each])),
        "mvce": float(np.mean([METRICS["mvce"](rows) for rows in each])),
    }
