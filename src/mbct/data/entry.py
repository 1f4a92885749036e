"""The public functions: one call for any source."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from mbct.data import memory
from mbct.data.aggregation import cells_of_rows, coded_rows
from mbct.data.binning import fit_bins_of_rows
from mbct.data.columns import Columns
from mbct.data.memory import Categorical
from mbct.data.rows import training_rows
from mbct.data.source import LazySource, open_source
from mbct.errors import ParameterError
from mbct.model.bins import FeatureBins
from mbct.training.binning import BinningOptions
from mbct.training.cells import Cells, build_cells
from mbct.validation import FloatArray, as_binary_labels, as_probabilities, as_weights


def fit_bins(
    data: Any,
    *,
    score_column: str,
    label: str,
    weight: str | None = None,
    features: Sequence[str] | None = None,
    categorical: Categorical = "auto",
    options: BinningOptions | None = None,
) -> FeatureBins:
    """Bins of the prediction and the features of any source; the same rows give the same bins in every engine.

    Parameters
    ----------
    data : path, relation, frame or array
        Anything that :func:`open_source` opens.
    score_column : str
        Column of the prediction.
    label : str
        Column of the labels, 0 and 1.
    weight : str or None, default=None
        Column of the weights.
    features : sequence of str or None, default=None
        Columns to bin; None takes all but prediction, label and weight.
    categorical : {"auto", "all"} or sequence of str, default="auto"
        "auto" codes everything but numbers by value, "all" every column, a list the named columns too.
    options : BinningOptions or None, default=None
        Numbers of bins and the like; None takes the defaults.

    Returns
    -------
    bins : FeatureBins
        The prediction's bins first, then those of each feature.
    """
    source = open_source(data)
    options = options or BinningOptions()
    if features is None:
        features = [name for name in source.names if name not in (score_column, label, weight)]
    if isinstance(source, LazySource):
        rows = training_rows(source, score_column, label, weight, features)
        return fit_bins_of_rows(rows, score_column, features, categorical, options)
    columns, y_prob, y_true, weights = _counted(source.columns, score_column, label, weight)
    return memory.fit_bins(columns, score_column, features, y_prob, y_true, weights, categorical, options)


def aggregate(
    data: Any, bins: FeatureBins, *, label: str, weight: str | None = None, level: Literal["cell", "score"] = "cell"
) -> Cells:
    """Cells of any source under given bins: the sums of the rows that share their codes.

    Parameters
    ----------
    data : path, relation, frame or array
        Anything that :func:`open_source` opens; the prediction is the column that the first of ``bins`` names.
    bins : FeatureBins
        As :func:`fit_bins` gives.
    label : str
        Column of the labels, 0 and 1.
    weight : str or None, default=None
        Column of the weights.
    level : {"cell", "score"}, default="cell"
        "cell" joins rows of equal codes, "score" only those that also share the prediction.

    Returns
    -------
    cells : Cells
        For :meth:`MBCTCalibrator.fit_cells` or a :class:`~mbct.store.cell_store.CellStore`.
    """
    if level not in ("cell", "score"):
        raise ParameterError(f"level={level!r} must be 'cell' or 'score'")
    source = open_source(data)
    score = bins.names[0]
    if isinstance(source, LazySource):
        rows = training_rows(source, score, label, weight, bins.names[1:])
        return cells_of_rows(coded_rows(rows, bins), bins, level)
    columns, y_prob, y_true, weights = _counted(source.columns, score, label, weight)
    return build_cells(memory.encode(columns, bins, y_prob), y_prob, y_true, weights, bins, level)


def _counted(
    columns: Columns, score_column: str, label: str, weight: str | None
) -> tuple[Columns, FloatArray, FloatArray, FloatArray | None]:
    """Columns, predictions, labels and weights of the rows whose weight is not zero."""
    y_prob = as_probabilities(columns.numpy(score_column), f"score column {score_column!r}")
    y_true = as_binary_labels(columns.numpy(label), f"label column {label!r}")
    if weight is None:
        return columns, y_prob, y_true, None
    weights = as_weights(columns.numpy(weight), columns.n_rows, f"weight column {weight!r}")
    kept = weights > 0.0
    return columns.take(np.flatnonzero(kept)), y_prob[kept], y_true[kept], weights[kept]
