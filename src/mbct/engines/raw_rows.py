"""Rows brought into memory as they are, and coded there: one pass over them, where joining them would save little.

A column coded by value gets a number for each value in the order in which values turn up; when all rows have passed,
their sums say which code each value deserves, and the numbers are exchanged for the codes.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from mbct.binning.features import Bins, CategoryBins, FeatureBins, NumberBins
from mbct.binning.fit import BinningOptions, fit_category_bins
from mbct.cells.group import CodeMatrix
from mbct.engines.bins import number_bins, score_bins
from mbct.engines.factorize import as_floats, factorize
from mbct.engines.raw_groups import raw_value
from mbct.engines.rows import P, Rows, W, Y
from mbct.jit import kernel
from mbct.progress import progress
from mbct.validation import FloatArray

Narrow = npt.NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class CodedRows:
    """Rows in memory: their bins, codes, predictions, labels and weights."""

    bins: FeatureBins
    codes: CodeMatrix
    y_prob: FloatArray
    y_true: FloatArray
    weight: FloatArray


def coded_rows_of_raw(
    rows: Rows, score: str, features: Sequence[str], by_value: set[str], options: BinningOptions
) -> CodedRows:
    """Bins and codes of all rows; numbers to be cut get their bins from the engine beforehand."""
    schema = rows.source.frame.collect_schema()
    gathered: list[_Cut | _Numbered] = [_Cut(score_bins(rows, score, options))]
    for name in features:
        gathered.append(_Numbered(name) if name in by_value else _Cut(number_bins(rows, name, options)))
    keys = [P, *(f"__mbct_raw_{j}" for j in range(1, len(gathered)))]
    raw = rows.source.frame.select(
        *(raw_value(n, schema[n], by_value=n in by_value).alias(key) for n, key in zip(features, keys[1:], strict=True)),
        P,
        Y,
        W,
    )
    sums: dict[str, list[FloatArray]] = {P: [], Y: [], W: []}
    with progress("reading rows", rows.n_rows) as advance, ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for batch in rows.source.engine.batches(raw):
            p, y, w = (np.asarray(batch[name].to_numpy(), dtype=np.float64) for name in sums)
            list(pool.map(lambda column, key: column.add(batch[key], p, y, w), gathered, keys))  # noqa: B023
            for name, values in ((P, p), (Y, y), (W, w)):
                sums[name].append(values)
            advance(len(batch))
    bins = FeatureBins(tuple(column.bins(options.min_category_rows) for column in gathered))
    codes = np.empty((sum(map(len, sums[P])), len(bins)), dtype=bins.code_type)
    for j, column in enumerate(gathered):
        column.write(codes[:, j], bins[j])
    return CodedRows(bins, codes, *(np.concatenate(sums.pop(name)) for name in (P, Y, W)))


@dataclass
class _Cut:
    """A number whose bins are known: coded as it comes."""

    known: NumberBins
    codes: list[Narrow] = field(default_factory=list)

    def add(self, column: nw.Series[Any], _p: FloatArray, _y: FloatArray, _w: FloatArray) -> None:
        """Code the next rows."""
        self.codes.append(self.known.encode(as_floats(column)).astype(np.min_scalar_type(self.known.n_codes)))

    def bins(self, _min_rows: float) -> Bins:
        """The bins known before."""
        return self.known

    def write(self, into: CodeMatrix, _bins: Bins) -> None:
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

    def bins(self, min_rows: float) -> CategoryBins:
        """Codes that the values deserve."""
        mass, label, pred = self.sums[: len(self.number_of)].T
        return fit_category_bins(self.name, list(self.number_of), mass, label, pred, min_rows)

    def write(self, into: CodeMatrix, bins: Bins) -> None:
        """Exchange the numbers for codes."""
        code_of = bins.encode(list(self.number_of)).astype(into.dtype)
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
