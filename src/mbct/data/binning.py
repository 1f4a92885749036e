"""Bins fitted and codes found inside an engine, as those of memory.

Bins take one GROUP BY for each column. Codes are expressions and lookups: category values become codes by their text
where the engines agree on it, by comparison where not. Strings, whole numbers, dates and booleans have one text
everywhere; floats and datetimes have not, so they are compared with the typed values themselves.
"""

import contextlib
import datetime
from collections.abc import Callable, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.dtypes import DType

from mbct.data.columns import Categorical, chosen_categories, refuse_no_category
from mbct.data.engines.engine import Engine, Frame, Lookup
from mbct.data.expressions import has_zone, number, number_code
from mbct.data.rows import EngineRows, P, W, Y, code_column
from mbct.data.source import LazySource
from mbct.errors import DataError
from mbct.model.bins import CategoryBins, Feature, FeatureBins, NumberBins
from mbct.model.encoding import category_key
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
    rows: EngineRows, score_column: str, features: Sequence[str], categorical: Categorical, options: BinningOptions
) -> FeatureBins:
    """Bins of the prediction and of ``features``; the prediction comes first.

    The distinct values of each column and their weight come from the engine, so that every engine gives the same bins.
    A number with more than ``MOST_DISTINCT`` values is cut at quantiles of its rows, not of their weights; DuckDB and
    polars find them by sorting, Spark approximates them.
    """
    by_value = features_by_value(rows, features, categorical)
    with progress("binning columns", len(features) + 1) as advance:
        fitted: list[Feature] = [score_bins(rows, score_column, options)]
        for name in features:
            advance(1)
            if name in by_value:
                fitted.append(_category_bins(rows, name, options.min_category_rows))
            else:
                fitted.append(numeric_bins(rows, name, options))
    return FeatureBins(tuple(fitted))


def features_by_value(rows: EngineRows, features: Sequence[str], categorical: Categorical) -> set[str]:
    """Features that are coded by value; the others are numbers to be cut."""
    schema = rows.source.frame.collect_schema()
    return chosen_categories(features, [name for name in features if not schema[name].is_numeric()], categorical)


def numeric_bins(rows: EngineRows, name: str, options: BinningOptions) -> NumberBins:
    """Bins of a number that is cut."""
    return fit_number_bins(name, *_distinct_numbers(rows, number(name)), options.numeric_bins)


def score_bins(rows: EngineRows, score_column: str, options: BinningOptions) -> NumberBins:
    """Bins of the prediction; those of equal width need no query."""
    if options.score_binning == "width":
        nothing = np.empty(0)
        return fit_score_bins(score_column, nothing, nothing, options)
    return fit_score_bins(score_column, *_distinct_numbers(rows, nw.col(P)), options)


def _distinct_numbers(rows: EngineRows, value: nw.Expr) -> tuple[FloatArray, FloatArray]:
    """Distinct finite values in rising order and the weight of each; or quantiles and how often each occurs."""
    engine = rows.source.engine
    finite = rows.source.frame.select(value.alias(_VALUE), W).filter(
        ~nw.col(_VALUE).is_null() & (nw.col(_VALUE).abs() != np.inf)
    )
    if rows.n_rows > MOST_DISTINCT and engine.count_distinct(finite, [_VALUE]) > MOST_DISTINCT:
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


def with_codes(source: LazySource, bins: FeatureBins, score_column: str, used: set[int] | None = None) -> LazySource:
    """Add the code column of every feature, or of those in ``used``; the prediction is read from ``score_column``.

    Three steps, each a projection: values fit for comparison, then their codes, then codes for what has none.
    """
    schema = source.frame.collect_schema()
    wanted = [(j, feature) for j, feature in enumerate(bins) if used is None or j in used]
    if not wanted:
        return source
    names = {j: score_column if j == 0 else feature.name for j, feature in wanted}
    frame = source.frame
    if zoned := [j for j, _ in wanted if has_zone(schema[names[j]])]:
        names |= {j: _value_column(j) for j in zoned}
        frame = frame.with_columns(*(nw.col(bins[j].name).alias(_value_column(j)) for j in zoned))
        frame = source.engine.in_utc(frame, [_value_column(j) for j in zoned])
        schema = frame.collect_schema()
    dtypes = {j: schema[name] for j, name in names.items()}
    frame = frame.with_columns(*(_value(names[j], dtypes[j], feature).alias(_value_column(j)) for j, feature in wanted))
    codes: list[nw.Expr] = []
    lookups: list[Lookup] = []
    for j, feature in wanted:
        value = nw.col(_value_column(j))
        if isinstance(feature, NumberBins):
            codes.append(number_code(value, feature).alias(code_column(j)))
        elif needs_comparison(dtypes[j]):
            codes.append(code_by_comparison(value, dtypes[j], feature).alias(code_column(j)))
        else:
            code_of = {text: code for text, code in feature.code_of.items() if text is not None}
            if isinstance(dtypes[j], nw.String) and feature.value_type not in ("string", "boolean"):
                code_of = _codes_of_texts(source.engine, frame, _value_column(j), feature)
            lookups.append(Lookup(_value_column(j), code_column(j), code_of))
    if codes:
        frame = frame.with_columns(*codes)
    if lookups:
        frame = source.engine.look_up(frame, lookups)
    finished = [_filled(j, feature) for j, feature in wanted if isinstance(feature, CategoryBins)]
    if finished:
        frame = frame.with_columns(*finished)
    return source.with_frame(frame.drop(*(_value_column(j) for j, _ in wanted)))


def _value(name: str, dtype: DType, feature: Feature) -> nw.Expr:
    if isinstance(feature, NumberBins):
        if not (dtype.is_numeric() or isinstance(dtype, nw.Boolean)):
            raise DataError(f"column {name!r} is {dtype}, but the model cuts it as a number: convert it first")
        return number(name)
    return category_values(name, dtype) if needs_comparison(dtype) else category_text(name, dtype)


def _codes_of_texts(engine: Engine, frame: Frame, column: str, feature: CategoryBins) -> dict[str, int]:
    """Codes of the texts that a column holds, where the model knows numbers or dates: '1.0' is 1."""
    texts = engine.collect(frame.select(column).unique())[column].to_list()
    coded = {text: feature.code(text) for text in texts if text is not None}
    return {text: code for text, code in coded.items() if code != feature.unseen}


def _filled(j: int, feature: CategoryBins) -> nw.Expr:
    """Null codes told apart: the value is missing, or it is unseen."""
    code, value = nw.col(code_column(j)), nw.col(_value_column(j))
    absent = nw.when(value.is_null()).then(nw.lit(feature.missing)).otherwise(nw.lit(feature.unseen))
    return nw.when(code.is_null()).then(absent).otherwise(code).cast(nw.Int32).alias(code_column(j))


def _value_column(j: int) -> str:
    return f"__mbct_value_{j}"


def category_values(column: str, dtype: DType) -> nw.Expr:
    """A column as values that can be grouped and compared: text, boolean, date, datetime, whole number or double."""
    refuse_no_category(column, dtype)
    raw = nw.col(column)
    if isinstance(dtype, nw.Datetime):
        return raw if dtype.time_unit == "us" else raw.cast(nw.Datetime("us"))
    if dtype.is_float() or isinstance(dtype, nw.Decimal):
        return number(column)
    if dtype.is_integer() or isinstance(dtype, nw.Boolean | nw.Date):
        return raw
    text = raw.cast(nw.String)
    return nw.when(text != "").then(text)


def needs_comparison(dtype: DType) -> bool:
    """Whether the engines write values of this type differently."""
    return dtype.is_float() or isinstance(dtype, nw.Decimal | nw.Datetime)


def category_text(column: str, dtype: DType) -> nw.Expr:
    """The canonical text of a category, as :func:`~mbct.model.encoding.category_key` writes it."""
    refuse_no_category(column, dtype)
    value = nw.col(column)
    if isinstance(dtype, nw.Boolean):
        return nw.when(value).then(nw.lit("true")).otherwise(nw.when(~value).then(nw.lit("false")))
    return value.cast(nw.String)


def code_by_comparison(value: nw.Expr, dtype: DType, bins: CategoryBins) -> nw.Expr:
    """Code of a float or a datetime: a binary search among the typed values; null where none is equal."""
    parse: Callable[[Any], Any] = datetime.datetime.fromisoformat if isinstance(dtype, nw.Datetime) else float
    typed = []
    for text, code in bins.code_of.items():
        with contextlib.suppress(TypeError, ValueError):  # None, or no such value
            if category_key(known := parse(text)) == text:
                typed.append((known, code))
    return _search(value, sorted(typed))


def _search(value: nw.Expr, typed: list[tuple[Any, int]]) -> nw.Expr:
    if not typed:
        return nw.lit(None).cast(nw.Int32)
    if len(typed) == 1:
        return nw.when(value == nw.lit(typed[0][0])).then(nw.lit(typed[0][1]).cast(nw.Int32))
    middle = len(typed) // 2
    in_lower_half = value < nw.lit(typed[middle][0])
    return nw.when(in_lower_half).then(_search(value, typed[:middle])).otherwise(_search(value, typed[middle:]))
