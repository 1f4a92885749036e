"""Scoring where the data is: codes and steps as plain expressions, never a function called for each row."""

import os
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from mbct.data.columns import Columns
from mbct.data.encoding import with_codes
from mbct.data.expressions import log_odds, number, probability_of
from mbct.data.memory import encode
from mbct.data.rows import P, code_column, require, require_number
from mbct.data.source import LazySource, open_source
from mbct.errors import DataError, ParameterError
from mbct.model.conditions import code_tests
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.file import load_ensemble
from mbct.validation import FloatArray, as_probabilities

_TOTAL = "__mbct_total"


def score(
    data: Any, model: Any, *, name: str = "calibrated", memory_limit: str | None = None, threads: int | None = None
) -> Any:
    """``data`` with a column of calibrated probabilities.

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
    scored : same kind of object as ``data``
        All columns and the new one; a path, Dataset or query gives a DuckDB relation.
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
    given = columns.numpy(ensemble.score)
    missing = np.isnan(given) if given.dtype.kind == "f" else np.zeros(len(given), dtype=np.bool_)
    y_prob = as_probabilities(np.where(missing, 0.5, given), f"score column {ensemble.score!r}")
    found = ensemble.calibrate_codes(encode(columns, ensemble.bins, y_prob), y_prob)
    return np.where(missing, np.nan, found)


def used_features(ensemble: CalibrationEnsemble) -> set[int]:
    """Numbers of the features that some tree looks at."""
    return {int(j) for tree in ensemble.trees for j in tree.feature if j >= 0}


def scored(source: LazySource, ensemble: CalibrationEnsemble, name: str) -> LazySource:
    """The source with a column of calibrated probabilities."""
    used = used_features(ensemble)
    require(source, [ensemble.score, *(ensemble.bins[j].name for j in sorted(used - {0}))])
    require_number(source, ensemble.score, "score")
    names = source.names
    if not ensemble.trees:
        return source.with_frame(source.frame.with_columns(number(ensemble.score).alias(name)))
    prepared = source.with_frame(source.frame.with_columns(number(ensemble.score).alias(P)))
    coded = with_codes(prepared, ensemble.bins, P, used)
    n_codes = ensemble.bins.n_codes
    terms = [code_tests(tree, n_codes) for tree in ensemble.trees]
    product = ensemble.link == "linear"
    totalled = source.engine.add_total(coded.frame, _TOTAL, terms, code_column, product=product)
    if product:
        moved = (nw.col(P) * nw.col(_TOTAL)).clip(0.0, 1.0)
    else:
        moved = probability_of(log_odds(nw.col(P)) + nw.col(_TOTAL))
    result = nw.when(~nw.col(P).is_null()).then(moved)
    return source.with_frame(totalled.with_columns(result.alias(name)).select(*names, name))
