"""Cells by way of raw values, for the preset "paper": the rows are read once, not once for each column.

Where the columns together take few values, they are grouped as they are (:meth:`RawRows.grouped`), and bins and codes
follow from the groups, in memory. Where joining rows would save little, they are brought into memory in one pass and
coded there (:meth:`RawRows.row_by_row`): a column coded by value gets a number for each value in the order in which
values turn up; when all rows have passed, their sums say which code each value deserves, and the numbers are exchanged.
"""

import os
from collections.abc import Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from mbct.data.binning import category_values, numeric_bins, score_bins
from mbct.data.columns import as_floats, encode_column, factorize, fit_categories
from mbct.data.engines.engine import Frame
from mbct.data.expressions import number
from mbct.data.rows import SUM_NAMES, EngineRows, P, W, Y, code_column, sums_by
from mbct.jit import kernel
from mbct.model.bins import CategoryBins, CodeMatrix, Feature, FeatureBins, NumberBins
from mbct.progress import progress
from mbct.training.binning import BinningOptions, distinct_numbers, fit_category_bins, fit_number_bins
from mbct.training.cells import Cells, Sums, build_cells
from mbct.training.grouping import group_rows
from mbct.validation import FloatArray

MOST_GROUPS = 500_000
"""Raw groups brought into memory: so few that no number among them has too many values to be cut exactly."""

_LOOKED_AT = 200_000  # Rows at the beginning from which it is guessed how many groups all of them make
_FEW = 0.25
"""Share of distinct ones among those rows up to which the guess is that there are few; it can only fall later on,
unless the rows are sorted."""


@dataclass(frozen=True)
class RawRows:
    """Rows of a source as they are: their features, of which those ``by_value`` are coded by value, others cut.

    The prediction's bins are of equal width, hence known before any row is read.
    """

    rows: EngineRows
    score_column: str
    features: Sequence[str]
    by_value: Set[str]
    options: BinningOptions

    @cached_property
    def bins_of_score(self) -> NumberBins:
        """Bins of the prediction."""
        return score_bins(self.rows, self.score_column, self.options)

    @property
    def keys(self) -> list[str]:
        """Columns that tell groups apart."""
        return [code_column(0), *(f"__mbct_raw_{j}" for j in range(1, len(self.features) + 1))]

    @property
    def frame(self) -> Frame:
        """Keys, prediction, label and weight of every row."""
        return _with_width_code(self.rows.source.frame.select(*self._raw(), P, Y, W), self.bins_of_score.n_values)

    def _raw(self) -> list[nw.Expr]:
        """The features as they are, but for what engines tell apart and bins do not: NaN is null, −0 is 0."""
        schema = self.rows.source.frame.collect_schema()
        raw = []
        for name, key in zip(self.features, self.keys[1:], strict=True):
            plain = nw.col(name) if schema[name].is_integer() else number(name, schema[name])
            raw.append((category_values(name, schema[name]) if name in self.by_value else plain).alias(key))
        return raw

    def estimate(self) -> int:
        """About how many groups there are."""
        return self.rows.source.engine.count_distinct(self.frame, self.keys)

    def look_few(self) -> bool:
        """Whether the first rows repeat each other so often that it is worth grouping all rows without counting."""
        seen = min(_LOOKED_AT, self.rows.n_rows)
        return self.rows.source.engine.count_distinct(self.frame.head(seen), self.keys) <= _FEW * seen

    def grouped(self, most_groups: int) -> tuple[FeatureBins, Cells] | None:
        """Bins, and cells in canonical order; None where there are more groups than ``most_groups``."""
        with progress("grouping rows"):
            found = self.rows.source.engine.collect(sums_by(self.frame, self.keys, SUM_NAMES).head(most_groups + 1))
        if len(found) > most_groups:
            return None
        columns = {name: np.asarray(found[name].to_numpy(), dtype=np.float64) for name in SUM_NAMES}
        sums = Sums(**columns, logit=np.full(len(found), np.nan))
        fitted: list[Feature] = [self.bins_of_score]
        codes = [np.asarray(found[code_column(0)].to_numpy(), dtype=np.intp)]
        for name, key in zip(self.features, self.keys[1:], strict=True):
            if name in self.by_value:
                fitted.append(fit_categories(name, found[key], sums.count, sums.label, sums.pred, self.options))
            else:
                distinct = distinct_numbers(as_floats(found[key]), sums.count)
                fitted.append(fit_number_bins(name, *distinct, self.options.numeric_bins))
            codes.append(encode_column(found[key], fitted[-1]))
        # Groups whose values share all their bins are one cell.
        bins = FeatureBins(tuple(fitted))
        matrix = np.column_stack([column.astype(bins.code_type) for column in codes])
        group, first = group_rows(matrix)
        joined = sums.grouped(group, len(first))
        return bins, Cells(np.ascontiguousarray(matrix[first]), joined, bins.n_codes, bins.fingerprint, one_score=False)

    def row_by_row(self, *, join: bool) -> tuple[FeatureBins, Cells]:
        """Bins, and every row a cell of its own, unless ``join`` and it turns out that rows of equal codes are many.

        Numbers that are cut get their bins from the engine beforehand.
        """
        gathered = [
            _Cut(self.bins_of_score),
            *(
                _Numbered(name) if name in self.by_value else _Cut(numeric_bins(self.rows, name, self.options))
                for name in self.features
            ),
        ]
        p, y, w = self._read(gathered)
        rate = float(np.average(y, weights=w))
        bins = FeatureBins(tuple(column.bins(self.options.min_category_rows, rate) for column in gathered))
        codes = np.empty((len(p), len(bins)), dtype=bins.code_type)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(lambda j: gathered[j].write(codes[:, j]), range(len(bins))))
        if join:
            return bins, build_cells(codes, p, y, w, bins)
        # Memory that is touched for the first time costs more than what is written to it: no array is made in vain.
        # The sum of log-odds, which the paper's trees never ask for, is left unknown.
        label, pred = (w * y, w * p) if self.rows.weighted else (y, p)
        sums = Sums(w, label, pred, pred * p, label * p, np.broadcast_to(np.nan, len(p)))
        return bins, Cells(codes, sums, bins.n_codes, bins.fingerprint, one_score=True)

    def _read(self, gathered: "Sequence[_Cut | _Numbered]") -> tuple[FloatArray, FloatArray, FloatArray]:
        """Prediction, label and weight of all rows, whose other columns are added to what is ``gathered``."""
        rows = self.rows
        kept = {name: np.empty(rows.n_rows) for name in (P, Y, *([W] if rows.weighted else []))}
        weight = np.broadcast_to(1.0, rows.n_rows)
        coding: list[Future[None]] = []
        n_read = 0
        with progress("reading rows", rows.n_rows) as advance, ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for batch in rows.source.engine.batches(rows.source.frame.select(*self._raw(), *kept)):
                # The engine read this batch while the last one was coded.
                _wait_for(coding)
                these = slice(n_read, n_read + len(batch))
                for name, column in kept.items():
                    column[these] = batch[name].to_numpy()
                p, y, w = kept[P][these], kept[Y][these], kept.get(W, weight)[these]
                columns = zip(gathered, (P, *self.keys[1:]), strict=True)
                coding = [pool.submit(column.add, batch[key], p, y, w) for column, key in columns]
                n_read += len(batch)
                advance(len(batch))
            _wait_for(coding)
        return kept[P][:n_read], kept[Y][:n_read], kept.get(W, weight)[:n_read]


_NEAR = "__mbct_near"
Narrow = npt.NDArray[np.unsignedinteger[Any]]


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
