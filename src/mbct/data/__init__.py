"""Bins, cells and scores wherever the rows are: DuckDB, polars, PySpark, or memory.

>>> import mbct.data as engines
>>> import polars as pl
>>> rows = pl.LazyFrame({"p": [0.2, 0.2, 0.6, 0.6], "y": [0, 1, 1, 1], "site": ["a", "a", "b", "b"]})
>>> bins = engines.fit_bins(rows, score_column="p", label="y")
>>> cells = engines.aggregate(rows, bins, label="y")
>>> sorted(cells.sums.count.tolist()), float(cells.total.label)
([2.0, 2.0], 3.0)
"""

from typing import TYPE_CHECKING

from mbct.lazy import lazy_names

if TYPE_CHECKING:
    from mbct.data.entry import aggregate as aggregate
    from mbct.data.entry import fit_bins as fit_bins
    from mbct.data.entry import score as score
    from mbct.data.source import open_source as open_source

__getattr__, __dir__, __all__ = lazy_names(
    __name__, ("mbct.data.entry", "aggregate fit_bins score"), ("mbct.data.source", "open_source")
)
