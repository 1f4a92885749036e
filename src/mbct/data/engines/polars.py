"""Polars: lazy frames, run by its streaming engine."""

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from mbct.data.engines.engine import ColumnOf, Frame, Lookup, lazy
from mbct.data.expressions import balanced, step_of, unpivot
from mbct.model.conditions import CodeDecision
from mbct.validation import FloatArray


class PolarsEngine:
    """Queries run in this process; what is kept is kept in memory."""

    name = "polars"
    streams = False

    def collect(self, frame: Frame) -> nw.DataFrame[Any]:
        """The result as a polars frame."""
        return nw.from_native(frame.to_native().collect(engine="streaming"), eager_only=True)

    def batches(self, frame: Frame) -> Iterator[nw.DataFrame[Any]]:
        """The whole result."""
        yield self.collect(frame)

    def table(self, _beside: Frame, columns: Mapping[str, np.ndarray[Any, Any]]) -> Frame:
        """A frame in memory."""
        import polars as pl

        return lazy(pl.LazyFrame({name: values.tolist() for name, values in columns.items()}))

    def in_utc(self, frame: Frame, columns: Sequence[str]) -> Frame:
        """By the column's own zone."""
        zoned = [nw.col(name).dt.convert_time_zone("UTC").dt.replace_time_zone(None) for name in columns]
        return frame.with_columns(zoned)

    def look_up(self, frame: Frame, lookups: Sequence[Lookup]) -> Frame:
        """By a replacement, which keeps the order of rows."""
        import polars as pl

        coded = [
            pl.col(lookup.column)
            .replace_strict(
                pl.Series(list(lookup.code_of), dtype=pl.String),
                pl.Series(list(lookup.code_of.values()), dtype=pl.Int32),
                default=None,
                return_dtype=pl.Int32,
            )
            .alias(lookup.into)
            for lookup in lookups
        ]
        return lazy(frame.to_native().with_columns(coded))

    def sum_trees(
        self, frame: Frame, into: str, terms: Sequence[CodeDecision], column: ColumnOf, *, product: bool
    ) -> Frame:
        """As expressions."""
        join = operator.mul if product else operator.add
        return frame.with_columns(balanced([step_of(term, column) for term in terms], join).alias(into))

    def spread(self, frame: Frame, columns: Sequence[str], into: str, kept: Sequence[str]) -> Frame:
        """Unpivot the columns."""
        return unpivot(frame, columns, into, kept)

    def count_distinct(self, frame: Frame, columns: Sequence[str]) -> int:
        """HyperLogLog of the columns' hash."""
        import polars as pl

        hashed = frame.to_native().select(pl.struct(list(columns)).hash().approx_n_unique())
        return int(hashed.collect(engine="streaming").item())

    def quantiles(self, frame: Frame, column: str, n_points: int) -> FloatArray:
        """Values at evenly spaced ranks of the sorted column."""
        ranked = np.sort(self.collect(frame.select(column))[column].to_numpy())
        ranks = np.linspace(0, len(ranked) - 1, n_points).round().astype(np.int64)
        return np.asarray(ranked[ranks], dtype=np.float64)

    def materialize(self, frame: Frame) -> Frame:
        """A frame in memory."""
        return lazy(frame.to_native().collect(engine="streaming").lazy())

    def release(self, frame: Frame) -> None:
        """Nothing to do: memory is freed with the frame."""
