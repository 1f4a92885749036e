"""Methods for many classes on the same folds, each evaluated on the rows that it has not seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from mbct.calibrators.inputs import take_blocks, take_labels, take_weights
from mbct.calibrators.multiclass.scores import ManyScores
from mbct.calibrators.registry import make
from mbct.data.columns import Columns, read_columns
from mbct.errors import DataError, ParameterError
from mbct.evaluation.comparison import CLEAR
from mbct.evaluation.metrics.many_classes import evaluate_classes
from mbct.evaluation.metrics.results import Table
from mbct.evaluation.splits import folds_of_rows
from mbct.training.evidence import standard_error_of_blocks
from mbct.training.folds import BlockColumns, BlockSize
from mbct.validation import FloatArray

BASE = "identity"
TREES = "mbct-multiclass"
METHODS = ("matrix-scaling", "dirichlet", TREES)


@dataclass(frozen=True)
class ClassComparison:
    """Methods by held-out log loss, best first; ``print`` shows the table and which method to take.

    Attributes
    ----------
    table : Table
        A row a method: log loss, its difference to the base with its standard error, Brier score, top-label ECE.
    best, recommendation : str
        The method of the lowest loss, and the one to take: the base, unless the best is ahead by two standard errors.
    """

    table: Table
    best: str
    recommendation: str

    def __str__(self) -> str:
        return f"{self.table}\ntake {self.recommendation}"


def compare_classes(
    X: Any,
    y: Any,
    *,
    score_column: Sequence[str],
    classes: Sequence[Any] | None = None,
    methods: Sequence[str | ManyScores] = METHODS,
    cv: int = 5,
    time: Any = None,
    groups: Any = None,
    block: BlockSize = "day",
    sample_weight: Any = None,
    random_state: int = 0,
) -> ClassComparison:
    """Held-out scores of calibration methods for many classes, with paired differences to the base.

    Parameters
    ----------
    X, y, sample_weight : as in :meth:`mbct.calibrators.Calibrator.fit`
        Labelled rows.
    score_column, classes : sequences; classes may be None, the default
        A column for each class, and the class of each; None sorts the labels.
    methods : sequence of str or calibrators, default=("matrix-scaling", "dirichlet", "mbct-multiclass")
        Methods to compare; "mbct" is "mbct-multiclass". The scores as they came always take part.
    cv : int, default=5
        Number of folds.
    time, groups, block : as in :func:`mbct.compare`
        Which rows are held out together.
    random_state : int, default=0
        Seed of the folds.

    Returns
    -------
    comparison : ClassComparison
        Methods by rising held-out log loss.
    """
    columns, labels, _ = take_labels(read_columns(X), y)
    columns, weight = take_weights(columns, sample_weight)
    blocks = BlockColumns(time, groups, block)
    columns, number = take_blocks(columns, blocks)
    if not weight.all():
        raise DataError("rows of weight 0 cannot be compared on: leave them out")
    named = list(np.unique(labels).tolist() if classes is None else classes)
    names = list(score_column)
    code = np.unique(labels, return_inverse=True)[1]
    fold = folds_of_rows(columns, code, weight, number, blocks, cv, random_state)
    found = {BASE: np.column_stack([np.asarray(columns.numpy(name), dtype=np.float64) for name in names])}
    for method in methods:
        title, model = _calibrator(method, names, named)
        seen = columns if model.feature_aware else Columns({name: columns.by_name[name] for name in names}, len(labels))
        found[title] = _held_out(model, seen, labels, weight, fold)
    return _comparison(found, labels, named, weight, number, in_order=blocks.options.kind == "time")


def _calibrator(method: str | ManyScores, names: list[str], classes: list[Any]) -> tuple[str, ManyScores]:
    model = make(TREES if method == "mbct" else method) if isinstance(method, str) else clone(method)
    if not isinstance(model, ManyScores):
        raise ParameterError(
            f"method {model.method!r} calibrates one probability: for many classes take {', '.join(METHODS)}"
        )
    title = model.method if isinstance(method, str) else str(method)
    return title, model.set_params(score_column=names, classes=classes)


def _held_out(
    model: ManyScores, columns: Columns, labels: npt.NDArray[Any], weight: FloatArray, fold: npt.NDArray[Any]
) -> FloatArray:
    found = np.empty((len(labels), len(model.score_column)))  # type: ignore[arg-type]  # a list, as set above
    for k in np.unique(fold):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        fitted = clone(model).fit(columns.take(train).by_name, labels[train], weight[train])
        found[test] = fitted.calibrate(columns.take(test).by_name)
    return found


def _comparison(
    found: dict[str, FloatArray],
    labels: npt.NDArray[Any],
    classes: list[Any],
    weight: FloatArray,
    number: npt.NDArray[np.int32] | None,
    *,
    in_order: bool,
) -> ClassComparison:
    hit = labels[:, None] == np.asarray(classes)[None, :]
    losses = {name: -np.log(np.clip(p[hit], np.finfo(np.float64).eps, 1.0)) for name, p in found.items()}
    rows: list[dict[str, Any]] = []
    for name, p in found.items():
        scores = evaluate_classes(labels, p, classes=classes, sample_weight=weight).overall
        gain = losses[name] - losses[BASE]
        share = weight / weight.sum()
        difference = float(np.sum(share * gain))
        error = float(np.sqrt(np.sum((share * (gain - difference)) ** 2)))
        if number is not None:
            position = np.unique(number, return_inverse=True)[1].astype(np.int32)
            error = standard_error_of_blocks(weight * gain, weight, position, in_order=in_order)
        kept = {key: scores[key] for key in ("brier", "accuracy", "top_label_ece", "classwise_ece")}
        paired = {"log_loss": scores["log_loss"], "difference": difference, "standard_error": error}
        rows.append({"method": name, **paired, **kept})
    rows.sort(key=lambda row: row["log_loss"])
    best = rows[0]
    clear = -best["difference"] > CLEAR * best["standard_error"]
    table = Table(tuple((name, tuple(row[name] for row in rows)) for name in rows[0]))
    return ClassComparison(table, best["method"], best["method"] if clear else BASE)
