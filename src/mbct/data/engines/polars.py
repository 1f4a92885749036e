"""Polars: lazy frames, run by its streaming engine."""

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from mbct.data.engines.engine import Engine, Frame, Lookup, lazy
from mbct.validation import FloatArray


class PolarsEngine(Engine):
    """Queries run in this process; what is kept is kept in memory."""

    def collect(self, frame: Frame) -> nw.DataFrame[Any]:
        """The result as a polars frame."""
        return nw.from_native(frame.to_native().collect(engine="streaming"), eager_only=True)

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
