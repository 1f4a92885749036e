"""Bins fitted inside an engine: one GROUP BY for each column, the rest as in memory."""

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from mbct.data.columns import Categorical, chosen_categories
from mbct.data.encoding import category_values
from mbct.data.engines.engine import Engine, Frame
from mbct.data.expressions import number
from mbct.data.rows import EngineRows, P, W, Y
from mbct.model.bins import Feature, FeatureBins, NumberBins
from mbct.progress import progress
from mbct.training.binning import (
    BinningOptions,
    RareValues,
    counts_rows,
    fit_category_bins,
    fit_number_bins,
    fit_score_bins,
)
from mbct.validation import FloatArray

MOST_DISTINCT = 1_000_000
"""A number with more distinct values than this is cut by quantiles that the engine finds."""
_N_QUANTILES = 4096  # Quantiles asked of the engine, of which at most a few hundred become edges
_VALUE = "__mbct_value"


def fit_bins_of_rows(
    rows: EngineRows,
    score_column: str,
    features: Sequence[str],
    categorical: Categorical,
    options: BinningOptions,
    most_distinct: int = MOST_DISTINCT,
) -> FeatureBins:
    """Bins of the prediction and of ``features``; the prediction comes first.

    The distinct values of each column and their weight come from the engine, so that every engine gives the same bins.
    A number with more than ``most_distinct`` values is cut at quantiles of its rows, not of their weights; DuckDB and
    polars find them by sorting, Spark approximates them.
    """
    by_value = features_by_value(rows, features, categorical)
    with progress("binning columns", len(features) + 1) as advance:
        fitted: list[Feature] = [score_bins(rows, score_column, options, most_distinct)]
        for name in features:
            advance(1)
            if name in by_value:
                fitted.append(_category_bins(rows, name, options.min_category_rows))
            else:
                fitted.append(numeric_bins(rows, name, options, most_distinct))
    return FeatureBins(tuple(fitted))


def features_by_value(rows: EngineRows, features: Sequence[str], categorical: Categorical) -> set[str]:
    """Features that are coded by value; the others are numbers to be cut."""
    schema = rows.source.frame.collect_schema()
    return chosen_categories(features, [name for name in features if not schema[name].is_numeric()], categorical)


def numeric_bins(
    rows: EngineRows, name: str, options: BinningOptions, most_distinct: int = MOST_DISTINCT
) -> NumberBins:
    """Bins of a number that is cut."""
    return fit_number_bins(name, *_distinct_numbers(rows, number(name), most_distinct), options.numeric_bins)


def score_bins(
    rows: EngineRows, score_column: str, options: BinningOptions, most_distinct: int = MOST_DISTINCT
) -> NumberBins:
    """Bins of the prediction; those of equal width need no query."""
    if options.score_binning == "width":
        nothing = np.empty(0)
        return fit_score_bins(score_column, nothing, nothing, options)
    return fit_score_bins(score_column, *_distinct_numbers(rows, nw.col(P), most_distinct), options)


def _distinct_numbers(rows: EngineRows, value: nw.Expr, most_distinct: int) -> tuple[FloatArray, FloatArray]:
    """Distinct finite values in rising order and the weight of each; or quantiles and how often each occurs."""
    engine = rows.source.engine
    finite = rows.source.frame.select(value.alias(_VALUE), W).filter(
        ~nw.col(_VALUE).is_null() & (nw.col(_VALUE).abs() != np.inf)
    )
    if rows.n_rows > most_distinct and engine.count_distinct(finite, [_VALUE]) > most_distinct:
        points, times = np.unique(engine.quantiles(finite, _VALUE, _N_QUANTILES), return_counts=True)
        return points, times.astype(np.float64)
    grouped = engine.collect(finite.group_by(_VALUE).agg(nw.col(W).sum()))
    values = np.asarray(grouped[_VALUE].to_numpy(), dtype=np.float64)
    order = np.argsort(values)
    return values[order], np.asarray(grouped[W].to_numpy(), dtype=np.float64)[order]


def _category_bins(rows: EngineRows, name: str, min_rows: float) -> Feature:
    """Codes of a category; values too rare for a code of their own stay in the engine, where weight counts rows."""
    engine, frame = rows.source.engine, rows.source.frame
    dtype = frame.collect_schema()[name]
    grouped = (
        frame.select(
            category_values(name, dtype).alias(_VALUE),
            nw.col(W),
            (nw.col(W) * nw.col(Y)).alias(Y),
            (nw.col(W) * nw.col(P)).alias(P),
        )
        .filter(~nw.col(_VALUE).is_null())
        .group_by(_VALUE)
        .agg(nw.col(W).sum(), nw.col(Y).sum(), nw.col(P).sum())
    )
    rate = rows.positives / rows.weight
    # Whether floats are whole numbers is seen from all of them, the type of other columns from any one.
    if dtype.is_float():
        return fit_category_bins(name, *_sums_by_value(engine, grouped), min_rows, rate)
    enough = nw.col(W) >= min_rows * (1.0 - 1e-9)
    rare_together = grouped.with_columns(nw.when(enough).then(nw.col(_VALUE)).alias(_VALUE))
    found = _sums_by_value(engine, rare_together.group_by(_VALUE).agg(nw.col(W, Y, P).sum()))
    named = np.array([value is not None for value in found[0]], dtype=bool)
    rare = RareValues(*(float(amount[~named].sum()) for amount in found[1:3]))
    if not counts_rows(found[1][named], rare, rate, min_rows):
        found = _sums_by_value(engine, grouped)
    elif not named.any():
        found = _sums_by_value(engine, grouped.head(1))
    return fit_category_bins(name, *found, min_rows, rate)


def _sums_by_value(engine: Engine, grouped: Frame) -> tuple[list[Any], FloatArray, FloatArray, FloatArray]:
    """Values, and the weight, positives and predicted positives of each."""
    found = engine.collect(grouped)
    weight, label, pred = (np.asarray(found[column].to_numpy(), dtype=np.float64) for column in (W, Y, P))
    return found[_VALUE].to_list(), weight, label, pred
