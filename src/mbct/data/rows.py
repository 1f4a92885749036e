"""Training rows inside an engine: the prediction, the label, the weight and the features, checked by one query."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.dtypes import DType

from mbct.data.blocks import time_key
from mbct.data.columns import require_names
from mbct.data.engines.engine import Frame
from mbct.data.expressions import has_zone, log_odds, number
from mbct.data.source import LazySource
from mbct.errors import DataError
from mbct.model.encoding import BOOLEAN_SPELLINGS, category_key
from mbct.training.folds import BlockColumns
from mbct.validation import LARGEST_WEIGHT, SMALLEST_WEIGHT

_SPELLINGS_READ = 10  # Distinct texts of a label that are looked at; there are six ways to spell a boolean
_CLASSES_READ = 1_000  # Distinct labels that are looked at, of which two are right
_RESERVED = "__mbct_"
_MEANS_SEVERAL = re.compile(r"\*|\^.*\$", re.DOTALL)
P, Y, W = "__mbct_p", "__mbct_y", "__mbct_w"
"""Columns of the prediction, the label and the weight."""
TIME, GROUP = "__mbct_time", "__mbct_group"
"""Columns that say which rows belong together, where some do."""


def code_column(j: int) -> str:
    """Column of the codes of feature ``j``."""
    return f"__mbct_code_{j}"


@dataclass(frozen=True)
class EngineRows:
    """Checked rows: ``source`` holds P, Y, W beside the raw features; how many there are, and their weight.

    ``n_rows`` counts rows of weight 0, which ``source`` leaves out; without weights W is 1 everywhere.
    """

    source: LazySource
    n_rows: int
    weight: float
    positives: float
    weighted: bool


def training_rows(
    source: LazySource,
    score_column: str,
    label: str,
    weight: str | None,
    features: Sequence[str],
    blocks: BlockColumns | None = None,
) -> EngineRows:
    """Take what training needs from ``source`` and check it; a row of weight 0 leaves no trace."""
    require(source, [score_column, label, *([] if weight is None else [weight]), *features])
    source = _with_spelled_label(source, label)
    for role, name in (("score", score_column), ("label", label), ("weight", weight)):
        if name is not None:
            require_number(source, name, role)
    schema = source.frame.collect_schema()
    if zoned := [name for name in features if has_zone(schema[name])]:
        source = source.with_frame(source.engine.in_utc(source.frame, zoned))
    roles = {P: score_column, Y: label} | ({} if weight is None else {W: weight})
    one = [nw.lit(1.0).alias(W)] if weight is None else []
    kept = [nw.col(name) for name in features]
    if blocks is not None and blocks.time is not None:
        kept.append(time_key(blocks.time, schema[blocks.time], blocks.block).alias(TIME))
    if blocks is not None and blocks.groups is not None:
        kept.append(nw.col(blocks.groups).alias(GROUP))
    cautious = [number(name, schema[name]).alias(role) for role, name in roles.items()]
    rows = _checked(source.with_frame(source.frame.select(*cautious, *one, *kept)), score_column, label, weight)
    # No value is missing: what each query would do about NaN is left out from here on.
    plain = [(nw.col(name).cast(nw.Float64) + 0.0).alias(role) for role, name in roles.items()]
    frame = source.frame.select(*plain, *one, *kept)
    return replace(rows, source=source.with_frame(frame if weight is None else frame.filter(nw.col(W) > 0.0)))


SUM_NAMES = ("count", "label", "pred", "pred2", "pred_label")
"""The five sums of the paper's trees; the sixth, of log-odds, they never ask for."""


def sums_by(frame: Frame, keys: Sequence[str], names: Sequence[str]) -> Frame:
    """The sums called ``names``, as in :class:`~mbct.training.cells.Sums`, of the rows of each group."""
    p, y, w = nw.col(P), nw.col(Y), nw.col(W)
    every = {
        "count": w * 1.0,
        "label": w * y,
        "pred": w * p,
        "pred2": w * p * p,
        "pred_label": w * p * y,
        "logit": w * log_odds(p),
    }
    prepared = frame.select(*keys, *(every[name].alias(name) for name in names))
    return prepared.group_by(*keys).agg(*(nw.col(name).sum() for name in names))


def require(source: LazySource, names: Sequence[str]) -> None:
    """Raise unless every name is a column, and no column has a name that an engine would misread."""
    present = source.names
    if misread := [name for name in present if name.startswith(_RESERVED) or _MEANS_SEVERAL.fullmatch(name)]:
        raise DataError(
            f"column {misread[0]!r} cannot be read by its name: '*' and '^…$' mean several columns to an engine, "
            f"and {_RESERVED}… are columns of our own; rename it"
        )
    require_names(names, present)


def require_number(source: LazySource, name: str, role: str) -> None:
    """Raise unless a column holds numbers or booleans."""
    dtype = source.frame.collect_schema()[name]
    if not (dtype.is_numeric() or isinstance(dtype, nw.Boolean)):
        raise DataError(f"{role} column {name!r} must be numeric, but it is {dtype}; convert the column first")


def distinct_labels(source: LazySource, label: str, weight: str | None) -> list[Any]:
    """Labels of the rows that count, none twice and not all of many; those within 0 and 1 stand for 0 and 1."""
    dtype = source.frame.collect_schema()[label]
    if isinstance(dtype, nw.Boolean):
        return [False, True]
    frame = source.frame if weight is None else source.frame.filter(number(weight) > 0.0)
    if dtype.is_numeric():
        value = number(label, dtype)
        ends = source.engine.collect(frame.select(value.min().alias("least"), value.max().alias("most")))
        least, most = (ends[name].to_list()[0] for name in ("least", "most"))
        if least is None or 0.0 <= least <= most <= 1.0:
            return [0, 1]  # Fractions are no classes: the rows are checked for them later.
    kept = frame.select(_comparable(label, dtype).alias(label))
    found = source.engine.collect(kept.filter(~nw.col(label).is_null()).unique().head(_CLASSES_READ))
    return list(found[label].to_list())


def with_binary_label(source: LazySource, label: str, negative_and_positive: Sequence[Any]) -> LazySource:
    """The source with a label of 0 and 1 in place of its two classes; what is missing stays missing."""
    negative, positive = negative_and_positive
    dtype = source.frame.collect_schema()[label]
    if {negative, positive} == {0, 1}:
        value = number(label, dtype)
        return source if positive == 1 else source.with_frame(source.frame.with_columns((1.0 - value).alias(label)))
    return source.with_frame(source.frame.with_columns(is_value(_comparable(label, dtype), positive).alias(label)))


def is_value(column: nw.Expr, value: Any) -> nw.Expr:
    """1 where a column holds this value, 0 where it holds another, nothing where it is missing."""
    return nw.when(column == value).then(nw.lit(1.0)).otherwise(nw.when(~column.is_null()).then(nw.lit(0.0)))


def _comparable(label: str, dtype: DType) -> nw.Expr:
    """A label as a number, or as text."""
    if dtype.is_numeric():
        return nw.col(label) if dtype.is_integer() else number(label, dtype)
    return nw.col(label).cast(nw.String)


def _with_spelled_label(source: LazySource, label: str) -> LazySource:
    """The source with a label that is spelled true and false, as in a CSV file, as a number."""
    if not isinstance(source.frame.collect_schema()[label], nw.String):
        return source
    found = source.engine.collect(source.frame.select(label).unique().head(_SPELLINGS_READ))[label].to_list()
    if not {category_key(value) for value in found} <= {"true", "false", None}:
        return source
    spelled = {key: [key, *(other for other, k in BOOLEAN_SPELLINGS.items() if k == key)] for key in ("true", "false")}
    text = nw.col(label)
    zero = nw.when(text.is_in(spelled["false"])).then(nw.lit(0.0))
    number = nw.when(text.is_in(spelled["true"])).then(nw.lit(1.0)).otherwise(zero)
    return source.with_frame(source.frame.with_columns(number.alias(label)))


def _checked(rows: LazySource, score_column: str, label: str, weight: str | None) -> EngineRows:
    """Count the rows and their weight; where an extreme value shows a fault, say which and in how many rows."""
    p, y, w = nw.col(P), nw.col(Y), nw.col(W)
    wanted = {
        "rows": nw.len(),
        "weight": w.sum(),
        "positives": nw.col("positives").sum(),
        "p": p.count(),
        "p_least": p.min(),
        "p_most": p.max(),
        "y": y.count(),
        "other": nw.col("other").max(),
    }
    if weight is not None:
        wanted |= {"w": w.count(), "w_least": w.min(), "w_most": w.max()}
    prepared = rows.frame.select(P, Y, W, (w * y).alias("positives"), (y * (y - 1.0)).abs().alias("other"))
    found = rows.engine.collect(prepared.select(*(each.alias(name) for name, each in wanted.items())))
    result = {name: found[name].to_list()[0] for name in wanted}
    if not result["rows"]:
        raise DataError("the data is empty (0 rows)")
    present = [result[name] for name in ("p", "y", "w") if name in result]
    sound = (
        present == [result["rows"]] * len(present)
        and 0.0 <= result["p_least"] <= result["p_most"] <= 1.0
        and result["other"] == 0.0
        and 0.0 <= result.get("w_least", 1.0) <= result.get("w_most", 1.0) < np.inf
    )
    if not sound:
        _name_the_fault(rows, score_column, label, weight)
    if result.get("w_most", 1.0) > LARGEST_WEIGHT or 0.0 < result["weight"] < SMALLEST_WEIGHT:
        raise DataError(
            f"weight column {weight!r} is too large or too small to be summed: scale the weights to lie between "
            f"{SMALLEST_WEIGHT:g} and {LARGEST_WEIGHT:g}"
        )
    if not result["weight"]:
        raise DataError(f"weight column {weight!r} is zero for every row: at least one row must count")
    totals = int(result["rows"]), float(result["weight"]), float(result["positives"])
    return EngineRows(rows, *totals, weight is not None)


def _name_the_fault(rows: LazySource, score_column: str, label: str, weight: str | None) -> None:
    """Raise for the first of the faults that rows can have: how many have it, with one value to show."""
    p, y, w = nw.col(P), nw.col(Y), nw.col(W)
    score, labels, weights = f"score column {score_column!r}", f"label column {label!r}", f"weight column {weight!r}"
    faults: list[tuple[nw.Expr, nw.Expr | None, str, str]] = [
        (p.is_null(), None, f"{score} is not a number", "drop or fill the missing predictions first"),
        ((p < 0.0) | (p > 1.0), p, f"{score} lies outside [0, 1]", "pass probabilities, not log-odds or percentages"),
        (y.is_null(), None, f"{labels} is missing", "drop the rows without a label"),
        ((y != 0.0) & (y != 1.0), y, f"{labels} is neither 0 nor 1", "map the two classes to 0 and 1"),
        (w.is_null() | (w == np.inf), None, f"{weights} is not finite", "give every row a finite weight"),
        (w < 0.0, w, f"{weights} is negative", "weights count rows: use 0 to leave a row out"),
    ]
    counted = {f"count_{i}": nw.when(each[0]).then(nw.lit(1.0)).otherwise(nw.lit(0.0)) for i, each in enumerate(faults)}
    shown = {f"value_{i}": nw.when(each[0]).then(each[1]) for i, each in enumerate(faults) if each[1] is not None}
    flagged = rows.frame.select(P, Y, W, *(flag.alias(name) for name, flag in (counted | shown).items()))
    found = rows.engine.collect(
        flagged.select(*(nw.col(name).sum() for name in counted), *(nw.col(name).max() for name in shown))
    )
    for i, (_, value, message, remedy) in enumerate(faults):
        if count := int(found[f"count_{i}"].to_list()[0] or 0):
            example = "" if value is None else f", for example {found[f'value_{i}'].to_list()[0]:g}"
            raise DataError(f"{message} in {count:,} row{'s' if count > 1 else ''}{example}; {remedy}")


def refuse_one_class(rows: EngineRows) -> None:
    """Raise where every row that counts has the same label."""
    if rows.positives in (0.0, rows.weight):
        raise DataError(
            f"the label is {1 if rows.positives else 0} in every row: both classes are needed to see a bias; "
            "widen the sample or check the label column"
        )
