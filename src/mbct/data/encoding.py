"""Codes of rows inside an engine: what :meth:`FeatureBins.encode` does in memory, as expressions and lookups."""

import narwhals.stable.v2 as nw
from narwhals.stable.v2.dtypes import DType

from mbct.data.engines.engine import Lookup
from mbct.data.expressions import number, number_code
from mbct.data.lookups import category_text, category_values, code_by_comparison, needs_comparison
from mbct.data.rows import code_column
from mbct.data.source import LazySource
from mbct.errors import DataError
from mbct.model.bins import Bins, CategoryBins, FeatureBins, NumberBins


def with_codes(source: LazySource, bins: FeatureBins, score_column: str, used: set[int] | None = None) -> LazySource:
    """Add the code column of every feature, or of those in ``used``; the prediction is read from ``score_column``.

    Three steps, each a projection: values fit for comparison, then their codes, then codes for what has none.
    """
    schema = source.frame.collect_schema()
    wanted = [(j, feature) for j, feature in enumerate(bins) if used is None or j in used]
    if not wanted:
        return source
    dtypes = {j: schema[score_column if j == 0 else feature.name] for j, feature in wanted}
    names = {j: score_column if j == 0 else feature.name for j, feature in wanted}
    frame = source.frame.with_columns(
        *(_value(names[j], dtypes[j], feature).alias(_value_column(j)) for j, feature in wanted)
    )
    codes: list[nw.Expr] = []
    lookups: list[Lookup] = []
    for j, feature in wanted:
        value = nw.col(_value_column(j))
        if isinstance(feature, NumberBins):
            codes.append(number_code(value, feature).alias(code_column(j)))
        elif needs_comparison(dtypes[j]):
            codes.append(code_by_comparison(value, dtypes[j], feature).alias(code_column(j)))
        else:
            code_of = {text: code for code, text in enumerate(feature.values)}
            lookups.append(Lookup(_value_column(j), code_column(j), code_of))
    if codes:
        frame = frame.with_columns(*codes)
    if lookups:
        frame = source.engine.look_up(frame, lookups)
    finished = [_filled(j, feature) for j, feature in wanted if isinstance(feature, CategoryBins)]
    if finished:
        frame = frame.with_columns(*finished)
    return source.with_frame(frame.drop(*(_value_column(j) for j, _ in wanted)))


def _value(name: str, dtype: DType, feature: Bins) -> nw.Expr:
    if isinstance(feature, NumberBins):
        if not (dtype.is_numeric() or isinstance(dtype, nw.Boolean)):
            raise DataError(f"column {name!r} is {dtype}, but the model cuts it as a number: convert it first")
        return number(name)
    return category_values(name, dtype) if needs_comparison(dtype) else category_text(name, dtype)


def _filled(j: int, feature: CategoryBins) -> nw.Expr:
    """Null codes told apart: the value is missing, or it is unseen."""
    code, value = nw.col(code_column(j)), nw.col(_value_column(j))
    absent = nw.when(value.is_null()).then(nw.lit(feature.missing)).otherwise(nw.lit(feature.unseen))
    return nw.when(code.is_null()).then(absent).otherwise(code).cast(nw.Int32).alias(code_column(j))


def _value_column(j: int) -> str:
    return f"__mbct_value_{j}"
