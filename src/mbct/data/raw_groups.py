"""Cells by way of raw values: one GROUP BY of the columns as they are, where together they take few values.

Feature and codes then follow from the groups, in memory: the rows are read once, not once for each column.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.dtypes import DType

from mbct.data.binning import score_bins
from mbct.data.columns import as_floats, factorize
from mbct.data.encoding import category_values
from mbct.data.engines.engine import Frame
from mbct.data.expressions import cell_sums, number
from mbct.data.rows import EngineRows, P, W, Y, code_column
from mbct.model.bins import Feature, FeatureBins, NumberBins
from mbct.progress import progress
from mbct.stats.sums import Sums
from mbct.training.binning import BinningOptions, distinct_numbers, fit_category_bins, fit_number_bins
from mbct.training.cells import Cells, group_rows

MOST_GROUPS = 500_000
"""Raw groups brought into memory: so few that no number among them has too many values to be cut exactly."""

_LOOKED_AT = 200_000
"""Rows at the beginning from which it is guessed how many groups all of them make."""
_FEW = 0.25
"""Share of distinct ones among those rows up to which the guess is that there are few; it can only fall later on,
unless the rows are sorted."""


def raw_value(name: str, dtype: DType, *, by_value: bool) -> nw.Expr:
    """A feature as it is, but for what engines tell apart and bins do not: NaN is null, −0 is 0."""
    if by_value:
        return category_values(name, dtype)
    return nw.col(name) if dtype.is_integer() else number(name, dtype)


@dataclass(frozen=True)
class RawGroups:
    """Rows with the values that would tell groups apart: the features' and the prediction's bin.

    The prediction's bins are of equal width, hence known before any row is read.
    """

    rows: EngineRows
    bins_of_score: NumberBins
    features: tuple[str, ...]
    by_value: frozenset[str]
    options: BinningOptions

    @classmethod
    def of(
        cls,
        rows: EngineRows,
        score_column: str,
        features: Sequence[str],
        by_value: Iterable[str],
        options: BinningOptions,
    ) -> "RawGroups":
        """Nothing is computed yet."""
        return cls(rows, score_bins(rows, score_column, options), tuple(features), frozenset(by_value), options)

    @property
    def keys(self) -> list[str]:
        """Columns that tell groups apart."""
        return [code_column(0), *(raw_key(j) for j in range(1, len(self.features) + 1))]

    @property
    def frame(self) -> Frame:
        """Keys, prediction, label and weight of every row."""
        rows = self.rows.source.frame
        schema = rows.collect_schema()
        raw = [raw_value(name, schema[name], by_value=name in self.by_value) for name in self.features]
        named = rows.select(*(value.alias(key) for value, key in zip(raw, self.keys[1:], strict=True)), P, Y, W)
        return _with_width_code(named, self.bins_of_score.n_values)

    def estimate(self) -> int:
        """About how many groups there are."""
        return self.rows.source.engine.count_distinct(self.frame, self.keys)

    def look_few(self) -> bool:
        """Whether the first rows repeat each other so often that it is worth grouping all rows without counting."""
        seen = min(_LOOKED_AT, self.rows.n_rows)
        return self.rows.source.engine.count_distinct(self.frame.head(seen), self.keys) <= _FEW * seen

    def cells(self, most_groups: int) -> tuple[FeatureBins, Cells] | None:
        """Bins, and cells in canonical order; None where there are more groups than ``most_groups``."""
        with progress("grouping rows"):
            groups = self.rows.source.engine.collect(_grouped(self.frame, self.keys).head(most_groups + 1))
        if len(groups) > most_groups:
            return None
        columns = {name: np.asarray(groups[name].to_numpy(), dtype=np.float64) for name in _SUMS}
        sums = Sums(**columns, logit=np.full(len(groups), np.nan))
        fitted: list[Feature] = [self.bins_of_score]
        codes = [np.asarray(groups[code_column(0)].to_numpy(), dtype=np.intp)]
        for name, key in zip(self.features, self.keys[1:], strict=True):
            bins, coded = _coded_column(name, groups[key], sums, self.options, by_value=name in self.by_value)
            fitted.append(bins)
            codes.append(coded)
        return _joined(FeatureBins(tuple(fitted)), codes, sums)


_NEAR = "__mbct_near"
_SUMS = ("count", "label", "pred", "pred2", "pred_label")
"""The five sums of the paper's trees; the sixth, of log-odds, which they never ask for, is left unknown (NaN)."""


def raw_key(j: int) -> str:
    """Column of the raw values of the ``j``-th feature, counted from 1."""
    return f"__mbct_raw_{j}"


def _with_width_code(frame: Frame, n_bins: int) -> Frame:
    """Add the prediction's code among bins of equal width: how many edges k/n lie below it.

    By arithmetic, as a search among a hundred edges would cost more than the GROUP BY. The engine's cast may round or
    cut off; the edges next to what it gives, the same doubles as those of the bins, decide.
    """
    near, p = nw.col(_NEAR), nw.col(P)
    beside = frame.with_columns((p * float(n_bins)).cast(nw.Int32).alias(_NEAR))
    # Polars multiplies by the reciprocal of a constant, which gives other doubles: n must look like a column.
    n = p * 0.0 + float(n_bins)
    here, next_edge = (((near + step).cast(nw.Float64) / n) for step in (0, 1))
    lower = nw.when((here < p) | (near == 0)).then(near).otherwise(near - 1)
    return beside.with_columns(nw.when(next_edge < p).then(near + 1).otherwise(lower).alias(code_column(0)))


def _grouped(raw: Frame, keys: list[str]) -> Frame:
    wanted = cell_sums(P, Y, W)
    prepared = raw.select(*keys, *(wanted[name].alias(name) for name in _SUMS))
    return prepared.group_by(*keys).agg(*(nw.col(name).sum() for name in _SUMS))


def _coded_column(
    name: str, column: nw.Series[Any], sums: Sums, options: BinningOptions, *, by_value: bool
) -> tuple[Feature, np.ndarray[Any, Any]]:
    """Bins of a column of groups, and the code of each group."""
    if not by_value:
        values = as_floats(column)
        numeric_bins: NumberBins = fit_number_bins(name, *distinct_numbers(values, sums.count), options.numeric_bins)
        return numeric_bins, numeric_bins.encode(values)
    distinct, position = factorize(column)
    mass, label, pred = (
        np.bincount(position, amount, len(distinct)).astype(np.float64)
        for amount in (sums.count, sums.label, sums.pred)
    )
    rate = float(sums.label.sum() / sums.count.sum())
    bins = fit_category_bins(name, distinct, mass, label, pred, options.min_category_rows, rate)
    return bins, bins.encode(distinct)[position]


def _joined(bins: FeatureBins, codes: list[np.ndarray[Any, Any]], sums: Sums) -> tuple[FeatureBins, Cells]:
    """Groups whose values share all their bins are one cell."""
    matrix = np.column_stack([column.astype(bins.code_type) for column in codes])
    group, first = group_rows(matrix)
    joined = sums.grouped(group, len(first))
    return bins, Cells(np.ascontiguousarray(matrix[first]), joined, bins.n_codes, bins.fingerprint, one_score=False)
