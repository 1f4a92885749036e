"""Cells by way of raw values, for the preset "paper": the rows are read once, not once for each column.

Where the columns together take few values, they are grouped as they are (:class:`RawGroups`), and features and codes
follow from the groups, in memory. Where joining rows would save little, they are brought into memory in one pass and
coded there (:func:`cells_of_raw_rows`): a column coded by value gets a number for each value in the order in which
values turn up; when all rows have passed, their sums say which code each value deserves, and the numbers are exchanged.
"""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
from narwhals.stable.v2.dtypes import DType

from mbct.data.binning import numeric_bins, score_bins
from mbct.data.columns import as_floats, factorize
from mbct.data.encoding import category_values
from mbct.data.engines.engine import Frame
from mbct.data.expressions import cell_sums, number
from mbct.data.rows import EngineRows, P, W, Y, code_column
from mbct.jit import kernel
from mbct.model.bins import CategoryBins, CodeMatrix, Feature, FeatureBins, NumberBins
from mbct.progress import progress
from mbct.stats.sums import Sums
from mbct.training.binning import BinningOptions, distinct_numbers, fit_category_bins, fit_number_bins
from mbct.training.cells import Cells, build_cells, group_rows
from mbct.validation import FloatArray

MOST_GROUPS = 500_000
"""Raw groups brought into memory: so few that no number among them has too many values to be cut exactly."""

_LOOKED_AT = 200_000  # Rows at the beginning from which it is guessed how many groups all of them make
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
    weight, label, pred = (
        np.bincount(position, amount, len(distinct)).astype(np.float64)
        for amount in (sums.count, sums.label, sums.pred)
    )
    rate = float(sums.label.sum() / sums.count.sum())
    bins = fit_category_bins(name, distinct, weight, label, pred, options.min_category_rows, rate)
    return bins, bins.encode(distinct)[position]


def _joined(bins: FeatureBins, codes: list[np.ndarray[Any, Any]], sums: Sums) -> tuple[FeatureBins, Cells]:
    """Groups whose values share all their bins are one cell."""
    matrix = np.column_stack([column.astype(bins.code_type) for column in codes])
    group, first = group_rows(matrix)
    joined = sums.grouped(group, len(first))
    return bins, Cells(np.ascontiguousarray(matrix[first]), joined, bins.n_codes, bins.fingerprint, one_score=False)


Narrow = npt.NDArray[np.unsignedinteger[Any]]


def cells_of_raw_rows(
    rows: EngineRows,
    score_column: str,
    features: Sequence[str],
    by_value: Iterable[str],
    options: BinningOptions,
    *,
    join: bool,
) -> tuple[FeatureBins, Cells]:
    """Bins, and every row a cell of its own, unless ``join`` and it turns out that rows of equal codes are many.

    Numbers that are cut get their bins from the engine beforehand.
    """
    gathered: list[_Cut | _Numbered] = [
        _Cut(score_bins(rows, score_column, options)),
        *(_Numbered(name) if name in by_value else _Cut(numeric_bins(rows, name, options)) for name in features),
    ]
    p, y, w = _read(rows, features, by_value, gathered)
    rate = float(np.average(y, weights=w))
    bins = FeatureBins(tuple(column.bins(options.min_category_rows, rate) for column in gathered))
    codes = np.empty((len(p), len(bins)), dtype=bins.code_type)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(lambda j: gathered[j].write(codes[:, j]), range(len(bins))))
    if join:
        return bins, build_cells(codes, p, y, w, bins)
    # Memory that is touched for the first time costs more than what is written to it: no array is made in vain. The
    # sum of log-odds, which the paper's trees never ask for, is left unknown.
    label, pred = (w * y, w * p) if rows.weighted else (y, p)
    sums = Sums(w, label, pred, pred * p, label * p, np.broadcast_to(np.nan, len(p)))
    return bins, Cells(codes, sums, bins.n_codes, bins.fingerprint, one_score=True)


def _read(
    rows: EngineRows, features: Sequence[str], by_value: Iterable[str], gathered: "Sequence[_Cut | _Numbered]"
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Prediction, label and weight of all rows, whose other columns are added to what is ``gathered``."""
    schema = rows.source.frame.collect_schema()
    raw = [raw_value(name, schema[name], by_value=name in by_value) for name in features]
    keys = [P, *(raw_key(j) for j in range(1, len(gathered)))]
    named = [value.alias(key) for value, key in zip(raw, keys[1:], strict=True)]
    kept = {name: np.empty(rows.n_rows) for name in (P, Y, *([W] if rows.weighted else []))}
    weight = np.broadcast_to(1.0, rows.n_rows)
    coding: list[Future[None]] = []
    n_read = 0
    with progress("reading rows", rows.n_rows) as advance, ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for batch in rows.source.engine.batches(rows.source.frame.select(*named, *kept)):
            # The engine read this batch while the last one was coded.
            _wait_for(coding)
            these = slice(n_read, n_read + len(batch))
            for name, column in kept.items():
                column[these] = batch[name].to_numpy()
            p, y, w = kept[P][these], kept[Y][these], kept.get(W, weight)[these]
            coding = [pool.submit(c.add, batch[key], p, y, w) for c, key in zip(gathered, keys, strict=True)]
            n_read += len(batch)
            advance(len(batch))
        _wait_for(coding)
    return kept[P][:n_read], kept[Y][:n_read], kept.get(W, weight)[:n_read]


def _wait_for(coding: "list[Future[None]]") -> None:
    """Wait, and raise what went wrong."""
    for done in coding:
        done.result()


@dataclass
class _Cut:
    """A number whose bins are known: coded as it comes."""

    known: NumberBins
    codes: list[Narrow] = field(default_factory=list)

    def add(self, column: nw.Series[Any], _p: FloatArray, _y: FloatArray, _w: FloatArray) -> None:
        """Code the next rows."""
        self.codes.append(self.known.encode(as_floats(column)).astype(np.min_scalar_type(self.known.n_codes)))

    def bins(self, _min_rows: float, _rate: float) -> Feature:
        """The bins known before."""
        return self.known

    def write(self, into: CodeMatrix) -> None:
        """Hand over the codes."""
        np.concatenate(self.codes, out=into, casting="same_kind")
        self.codes.clear()


@dataclass
class _Numbered:
    """A column coded by value: values numbered as they turn up, with the sums of each."""

    name: str
    number_of: dict[Any, int] = field(default_factory=dict)
    numbers: list[Narrow] = field(default_factory=list)
    sums: FloatArray = field(default_factory=lambda: np.zeros((256, 3)))
    code_of: npt.NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))

    def add(self, column: nw.Series[Any], p: FloatArray, y: FloatArray, w: FloatArray) -> None:
        """Number the next rows and add them to the sums of their values."""
        values, position = factorize(column)
        known = np.array([self.number_of.setdefault(value, len(self.number_of)) for value in values], dtype=np.intp)
        numbers = known[position].astype(np.min_scalar_type(len(self.number_of)))
        if len(self.number_of) > len(self.sums):
            more = np.zeros((2 * len(self.number_of), 3))
            more[: len(self.sums)] = self.sums
            self.sums = more
        _add_sums(numbers, p, y, w, self.sums)
        self.numbers.append(numbers)

    def bins(self, min_rows: float, rate: float) -> CategoryBins:
        """Codes that the values deserve."""
        weight, label, pred = self.sums[: len(self.number_of)].T
        bins = fit_category_bins(self.name, list(self.number_of), weight, label, pred, min_rows, rate)
        self.code_of = bins.encode(self.number_of)
        return bins

    def write(self, into: CodeMatrix) -> None:
        """Exchange the numbers for codes, once the bins are known."""
        code_of = self.code_of.astype(into.dtype)
        begin = 0
        for part in self.numbers:
            into[begin : begin + len(part)] = code_of[part]
            begin += len(part)
        self.numbers.clear()


@kernel
def _add_sums(number: Narrow, p: FloatArray, y: FloatArray, w: FloatArray, out: FloatArray) -> None:
    """Add weight, weighted label and weighted prediction of each row to those of its value."""
    for i in range(len(number)):
        k = np.uint64(number[i])
        out[k, 0] += w[i]
        out[k, 1] += w[i] * y[i]
        out[k, 2] += w[i] * p[i]
