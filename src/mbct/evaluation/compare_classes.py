"""Methods for many classes on the same splits, each evaluated on the rows that it has not seen."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from mbct.calibrators.inputs import take_blocks, take_labels, take_weights, warn
from mbct.calibrators.multiclass.scores import ClassRows, ManyScores, class_rows
from mbct.calibrators.registry import make
from mbct.data.columns import read_columns
from mbct.errors import ParameterError
from mbct.evaluation.comparison import Comparison
from mbct.evaluation.held_out import BASE, Fit, compare_held_out, describe_columns, own_blocks
from mbct.evaluation.splits import RowNumbers, SplitRows, make_splits, out_of_order
from mbct.training.folds import BlockColumns, BlockSize
from mbct.validation import FloatArray, class_labels, same_length

TREES = "mbct-multiclass"
METHODS = ("matrix-scaling", "dirichlet", TREES)


def compare_classes(
    X: Any,
    y: Any,
    *,
    score_column: Sequence[str],
    classes: Sequence[Any] | None = None,
    methods: Sequence[str | ManyScores] = METHODS,
    cv: Any = 5,
    time: Any = None,
    groups: Any = None,
    block: BlockSize = "day",
    sample_weight: Any = None,
    random_state: int = 0,
) -> Comparison:
    """Held-out scores of calibration methods for many classes, with paired differences to the base and to the best.

    Parameters
    ----------
    X, y, sample_weight : as in :meth:`mbct.calibrators.Calibrator.fit`
        Labelled rows.
    score_column, classes : sequences; classes may be None, the default
        A column for each class, and the class of each; None sorts the labels.
    methods : sequence of str or calibrators, default=("matrix-scaling", "dirichlet", "mbct-multiclass")
        Methods to compare; "mbct" is "mbct-multiclass". The scores as they came always take part.
    cv, time, groups, block, random_state : as in :func:`mbct.compare`
        Which rows are held out, and which of them together.

    Returns
    -------
    comparison : Comparison
        Methods by rising held-out log loss, what ties with the best and what to take.
    """
    blocks = BlockColumns(time, groups, block)
    calibrators = dict(_calibrator(method) for method in methods)
    own = {name: own_blocks(calibrator, blocks) for name, calibrator in calibrators.items()}
    every_column, labels, label_name = take_labels(read_columns(X), y)
    every_column, weight = take_weights(every_column, sample_weight)
    columns, number = take_blocks(every_column, blocks)
    same_length(columns.n_rows, y=labels)
    names, code = class_labels(labels, label_name, classes)
    rows = class_rows(columns, list(score_column))
    split_rows = SplitRows(columns, code, weight, number, blocks)
    splits = make_splits(split_rows, cv, random_state)
    fits: dict[str, Fit] = {BASE: lambda _: lambda held_out: rows.probabilities[held_out]}
    for name, calibrator in calibrators.items():
        own_block = number if own[name] is blocks else take_blocks(every_column, own[name])[1]
        named = [own[name].time, own[name].groups]
        kept = rows.columns.without(*(column for column in named if isinstance(column, str)))
        fits[name] = _fit(calibrator, replace(rows, columns=kept, block=own_block, blocks=own[name]), code, weight)
    warn([*describe_columns(rows.columns, own, blocks), *out_of_order(cv, splits, split_rows)], stacklevel=2)
    return compare_held_out(fits, split_rows, np.eye(len(names))[code], splits)


def _calibrator(method: str | ManyScores) -> tuple[str, ManyScores]:
    calibrator = make(TREES if method == "mbct" else method) if isinstance(method, str) else clone(method)
    if not isinstance(calibrator, ManyScores):
        raise ParameterError(
            f"method {calibrator.method!r} calibrates one probability: for many classes take {', '.join(METHODS)}"
        )
    return calibrator.method if isinstance(method, str) else str(method), calibrator


def _fit(calibrator: ManyScores, rows: ClassRows, code: npt.NDArray[np.intp], weight: FloatArray) -> Fit:
    def fit(train: RowNumbers) -> Callable[[RowNumbers], FloatArray]:
        fitted = clone(calibrator).fit_rows(rows.take(train), code[train], weight[train])
        return lambda held_out: fitted.calibrate_rows(rows.take(held_out))

    return fit
