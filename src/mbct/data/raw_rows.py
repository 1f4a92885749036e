"""Rows brought into memory as they are, and coded there: one pass over them, where joining them would save little.

A column coded by value gets a number for each value in the order in which values turn up; when all rows have passed,
their sums say which code each value deserves, and the numbers are exchanged for the codes.
"""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from mbct.data.binning import numeric_bins, score_bins
from mbct.data.columns import as_floats, factorize
from mbct.data.raw_groups import raw_key, raw_value
from mbct.data.rows import EngineRows, P, W, Y
from mbct.jit import kernel
from mbct.model.bins import CategoryBins, CodeMatrix, Feature, FeatureBins, NumberBins
from mbct.progress import progress
from mbct.stats.sums import Sums
from mbct.training.binning import BinningOptions, fit_category_bins
from mbct.training.cells import Cells, build_cells
from mbct.validation import FloatArray

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
        number = known[position].astype(np.min_scalar_type(len(self.number_of)))
        if len(self.number_of) > len(self.sums):
            more = np.zeros((2 * len(self.number_of), 3))
            more[: len(self.sums)] = self.sums
            self.sums = more
        _add_sums(number, p, y, w, self.sums)
        self.numbers.append(number)

    def bins(self, min_rows: float, rate: float) -> CategoryBins:
        """Codes that the values deserve."""
        mass, label, pred = self.sums[: len(self.number_of)].T
        bins = fit_category_bins(self.name, list(self.number_of), mass, label, pred, min_rows, rate)
        self.code_of = bins.encode(self.number_of)
        return bins

    def write(self, into: CodeMatrix) -> None:
        """Exchange the numbers for codes, once the bins are known."""
        code_of = self.code_of.astype(into.dtype)
        begin = 0
        for number in self.numbers:
            into[begin : begin + len(number)] = code_of[number]
            begin += len(number)
        self.numbers.clear()


@kernel
def _add_sums(number: Narrow, p: FloatArray, y: FloatArray, w: FloatArray, out: FloatArray) -> None:
    """Add weight, weighted label and weighted prediction of each row to those of its value."""
    for i in range(len(number)):
        k = np.uint64(number[i])
        out[k, 0] += w[i]
        out[k, 1] += w[i] * y[i]
        out[k, 2] += w[i] * p[i]
