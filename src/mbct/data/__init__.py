"""Bins, cells and scores wherever the rows are: DuckDB, polars, PySpark, or memory.

>>> import mbct.data as engines
>>> import polars as pl
>>> rows = pl.LazyFrame({"p": [0.2, 0.2, 0.6, 0.6], "y": [0, 1, 1, 1], "site": ["a", "a", "b", "b"]})
>>> bins = engines.fit_bins(rows, score_column="p", label="y")
>>> cells = engines.aggregate(rows, bins, label="y")
>>> sorted(cells.sums.count.tolist()), float(cells.total.label)
([2.0, 2.0], 3.0)
"""

from mbct.data.entry import aggregate, fit_bins, score
from mbct.data.source import open_source

__all__ = ["aggregate", "fit_bins", "open_source", "score"]
