"""The public functions: bins, cells and scores of any source, computed where the data is, never row by row."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np

from mbct.data.binning import fit_bins_of_rows, with_codes
from mbct.data.columns import Categorical, Columns, encode
from mbct.data.columns import fit_bins as bins_of_columns
from mbct.data.expressions import log_odds, number, probability_of
from mbct.data.rows import P, code_column, require, require_number, training_rows
from mbct.data.source import LazySource, open_source
from mbct.data.strategy import cells_of_rows, coded_rows
from mbct.errors import DataError, ParameterError
from mbct.model.bins import FeatureBins
from mbct.model.conditions import code_tests
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.file import load_ensemble
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
    score_column, label, weight : str; weight may be None, the default
        Columns of the prediction, of the labels, 0 and 1, and of the weights.
    features : sequence of str or None, default=None
        Columns to bin; None takes all but prediction, label and weight.
    categorical : {"auto", "all"} or sequence of str, default="auto"
        "auto" codes everything but numbers by value, "all" every column, a list the named columns too.
    options : BinningOptions or None, default=None
        Numbers of bins and the like; None takes the defaults.

    Returns
    -------
    bins : FeatureBins
        The score first; they code rows of any engine.
    """
    source = open_source(data)
    options = options or BinningOptions()
    if features is None:
        features = [name for name in source.names if name not in (score_column, label, weight)]
    if isinstance(source, LazySource):
        rows = training_rows(source, score_column, label, weight, features)
        return fit_bins_of_rows(rows, score_column, features, categorical, options)
    columns, y_prob, y_true, weights = _counted(source.columns, score_column, label, weight)
    return bins_of_columns(columns, score_column, features, y_prob, y_true, weights, categorical, options)


def aggregate(
    data: Any, bins: FeatureBins, *, label: str, weight: str | None = None, level: Literal["cell", "score"] = "cell"
) -> Cells:
    """Cells of any source under given bins, for ``MBCTCalibrator.fit_cells`` or a store: sums of rows of equal codes.

    Parameters
    ----------
    data : path, relation, frame or array
        Anything that :func:`open_source` opens; the prediction is the column that the first of ``bins`` names.
    bins : FeatureBins
        As :func:`fit_bins` gives.
    label, weight : str; weight may be None, the default
        Columns of the labels, 0 and 1, and of the weights.
    level : {"cell", "score"}, default="cell"
        "cell" joins rows of equal codes, "score" only those that also share the prediction.

    Returns
    -------
    cells : Cells
        Codes of each cell and the sums of its rows.
    """
    if level not in ("cell", "score"):
        raise ParameterError(f"level={level!r} must be 'cell' or 'score'")
    source = open_source(data)
    score = bins.names[0]
    if isinstance(source, LazySource):
        rows = training_rows(source, score, label, weight, bins.names[1:])
        return cells_of_rows(coded_rows(rows, bins), bins, level)
    columns, y_prob, y_true, weights = _counted(source.columns, score, label, weight)
    return build_cells(encode(columns, bins, y_prob), y_prob, y_true, weights, bins, level)


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


_TOTAL = "__mbct_total"


def score(
    data: Any, model: Any, *, name: str = "calibrated", memory_limit: str | None = None, threads: int | None = None
) -> Any:
    """``data`` with a column of calibrated probabilities; a path, Dataset or query gives a DuckDB relation.

    A missing prediction stays missing. One outside [0, 1] is refused where the rows are in memory; engines do not look
    for it. Rows keep their order, but for DuckDB when a category has more than 5,000 values.

    Parameters
    ----------
    data : path, relation or frame
        Anything that :func:`open_source` opens, but for arrays.
    model : CalibrationEnsemble, MBCTCalibrator or path
        A frozen ensemble, a fitted calibrator or its model file.
    name : str, default="calibrated"
        Name of the new column.
    memory_limit, threads : as in :func:`open_source`
        Limits of the DuckDB that reads files.

    Returns
    -------
    scored : as ``data``
        Lazy where ``data`` is.
    """
    ensemble = as_ensemble(model)
    source = open_source(data, memory_limit=memory_limit, threads=threads)
    if name in source.names:
        raise DataError(f"the data has a column {name!r} already: choose another name for the calibrated one")
    if isinstance(source, LazySource):
        return scored(source, ensemble, name).native
    frame = nw.from_native(source.native, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise DataError(f"cannot add a column to a {type(data).__name__}: pass a frame, or call calibrate")
    values: Any = calibrated(source.columns, ensemble)
    if np.isnan(values).any():
        values = [None if np.isnan(value) else value for value in values.tolist()]
    column = nw.new_series(name, values, nw.Float64, backend=frame.implementation)
    if frame.implementation.is_pandas():
        column = nw.maybe_set_index(column, index=nw.maybe_get_index(frame))
    return frame.with_columns(column).to_native()


def as_ensemble(model: Any) -> CalibrationEnsemble:
    """The frozen ensemble of an estimator, of a model file, or itself."""
    if isinstance(model, str | os.PathLike):
        return load_ensemble(Path(model))
    ensemble = getattr(model, "model_", model)
    if not isinstance(ensemble, CalibrationEnsemble):
        raise ParameterError(f"model is a {type(model).__name__}: pass a fitted MBCTCalibrator or its model file")
    return ensemble


def calibrated(columns: Columns, ensemble: CalibrationEnsemble) -> FloatArray:
    """Calibrated probabilities of columns in memory, NaN where the prediction is missing."""
    given = columns.numpy(ensemble.score_column)
    missing = np.isnan(given) if given.dtype.kind == "f" else np.zeros(len(given), dtype=np.bool_)
    y_prob = as_probabilities(np.where(missing, 0.5, given), f"score column {ensemble.score_column!r}")
    found = ensemble.calibrate_codes(encode(columns, ensemble.bins, y_prob), y_prob)
    return np.where(missing, np.nan, found)


def scored(source: LazySource, ensemble: CalibrationEnsemble, name: str) -> LazySource:
    """The source with a column of calibrated probabilities."""
    used = {int(j) for tree in ensemble.trees for j in tree.feature if j >= 0}
    require(source, [ensemble.score_column, *(ensemble.bins[j].name for j in sorted(used - {0}))])
    require_number(source, ensemble.score_column, "score")
    names = source.names
    prediction = number(ensemble.score_column)
    if not ensemble.trees:
        return source.with_frame(source.frame.with_columns(prediction.alias(name)))
    coded = with_codes(source.with_frame(source.frame.with_columns(prediction.alias(P))), ensemble.bins, P, used)
    terms = [code_tests(tree, ensemble.bins.n_codes) for tree in ensemble.trees]
    product = ensemble.link == "linear"
    totalled = source.engine.sum_trees(coded.frame, _TOTAL, terms, code_column, product=product)
    if product:
        moved = (nw.col(P) * nw.col(_TOTAL)).clip(0.0, 1.0)
    else:
        moved = probability_of(log_odds(nw.col(P)) + nw.col(_TOTAL))
    result = nw.when(~nw.col(P).is_null()).then(moved)
    return source.with_frame(totalled.with_columns(result.alias(name)).select(*names, name))
