"""Bins and codes of columns that are in memory."""

import os
from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np

from mbct.data.columns import Columns, as_floats, factorize, is_number, refuse_no_category
from mbct.errors import DataError, ParameterError
from mbct.model.bins import CategoryBins, CodeMatrix, Feature, FeatureBins, NumberBins
from mbct.training.binning import BinningOptions, distinct_numbers, fit_category_bins, fit_number_bins, fit_score_bins
from mbct.validation import FloatArray

_WORTH_THREADS = 100_000  # Rows from which on columns are coded side by side
Categorical = Literal["auto", "all"] | Sequence[str]


def fit_bins(
    columns: Columns,
    score_column: str,
    features: Sequence[str],
    y_prob: FloatArray,
    y_true: FloatArray,
    weight: FloatArray | None,
    categorical: Categorical,
    options: BinningOptions,
) -> FeatureBins:
    """Bins of the prediction and of ``features``; the prediction comes first."""
    columns.require(features)
    needed = (name for name in features if not is_number(columns.column(name)))
    by_value = chosen_categories(features, needed, categorical)
    weights = np.ones(len(y_prob)) if weight is None else weight
    sums = (weights, weights * y_true, weights * y_prob)
    fitted: list[Feature] = [fit_score_bins(score_column, *distinct_numbers(y_prob, weight), options)]
    for name in features:
        column = columns.column(name)
        if name in by_value:
            _refuse_nested(name, column)
            fitted.append(fit_categories(name, column, *sums, options))
        else:
            fitted.append(fit_number_bins(name, *distinct_numbers(as_floats(column), weight), options.numeric_bins))
    return FeatureBins(tuple(fitted))


def fit_categories(
    name: str, column: Any, weight: FloatArray, label: FloatArray, pred: FloatArray, options: BinningOptions
) -> CategoryBins:
    """Bins of a column that is coded by value; each entry has a weight, positives and predicted positives."""
    values, position = factorize(column)
    w, y, p = (np.bincount(position, each, len(values)).astype(np.float64) for each in (weight, label, pred))
    return fit_category_bins(name, values, w, y, p, options.min_category_rows, float(label.sum() / weight.sum()))


def _refuse_nested(name: str, column: Any) -> None:
    """Raise where a column holds lists, dictionaries or the like."""
    if isinstance(column, nw.Series):
        refuse_no_category(name, column.dtype)
    if isinstance(column, nw.Series) and not isinstance(column.dtype, nw.Object):
        return
    for value in column.to_list() if isinstance(column, nw.Series) else column.tolist():
        if not isinstance(value, Hashable):
            kind = type(value).__name__
            raise DataError(f"column {name!r} holds a {kind}, which is no category: take it apart or leave it out")


def chosen_categories(features: Sequence[str], needed: Iterable[str], categorical: Categorical) -> set[str]:
    """Features to be coded by value: all, those that cannot be cut (``needed``), or the named ones beside these."""
    if categorical == "all":
        return set(features)
    if categorical == "auto":
        return set(needed)
    if isinstance(categorical, str):
        raise ParameterError(f"categorical={categorical!r} must be 'auto', 'all' or a list of column names")
    named = {str(name) for name in categorical}
    if unknown := sorted(named - set(features)):
        raise DataError(f"categorical names {unknown}, but the features are {list(features)}")
    return set(needed) | named


def encode(columns: Columns, bins: FeatureBins, y_prob: FloatArray) -> CodeMatrix:
    """Codes of every row: one column a feature, the prediction first, in the narrowest integers."""
    columns.require(bins.names[1:])
    codes = np.empty((columns.n_rows, len(bins)), dtype=bins.code_type)

    def fill(j: int) -> None:
        codes[:, j] = encode_column(y_prob if j == 0 else columns.column(bins[j].name), bins[j])

    # What follows from a column's values alone may be found side by side.
    with ThreadPoolExecutor(1 if len(codes) < _WORTH_THREADS else os.cpu_count() or 1) as pool:
        list(pool.map(fill, range(len(bins))))
    return codes


def encode_column(column: Any, feature: Feature) -> np.ndarray[Any, Any]:
    """Codes of a column."""
    if isinstance(feature, NumberBins):
        return feature.encode(as_floats(column))
    values, position = factorize(column)
    return feature.encode(values)[position]
