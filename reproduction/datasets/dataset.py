"""A data set with everything an experiment must know of it, and its three-way split."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mbct.errors import DataError

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Row numbers: for the base predictor, for the calibrator, for the test."""

    predictor: Rows
    calibration: Rows
    test: Rows


@dataclass(frozen=True)
class Dataset:
    """Rows (a polars frame) and the role of each column.

    ``score`` names a prediction that comes with the data; else a GBDT is trained on ``predictor_features``, of which
    ``predictor_categories`` are no numbers.
    ``probe`` is a column that no calibrator sees: bins are divided by it to look for what they missed.
    ``shares`` are those of predictor, calibrator and test, by time (the order of rows) or at random. ``block`` numbers
    the days, hours or other stretches of time of rows that are in its order.
    """

    name: str
    title: str
    origin: str
    frame: Any
    label: str
    predictor_features: tuple[str, ...]
    predictor_categories: tuple[str, ...]
    calibration_features: tuple[str, ...]
    probe: str
    printed_bin_size: int
    shares: tuple[float, float, float]
    order: Literal["time", "random"] = "random"
    score: str | None = None
    discrete: bool = True
    """Whether all calibration features are coded by value, as in the paper; else numbers are cut at quantiles."""
    whole: bool = False
    """Whether a full run takes all rows: the paper's own files, and large files in the order of time."""
    block: str | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.frame.height)

    def thinned(self, n_rows: int) -> "Dataset":
        """At most ``n_rows`` rows, evenly spaced, in order."""
        if self.n_rows <= n_rows:
            return self
        chosen = np.linspace(0, self.n_rows - 1, n_rows).astype(np.int64)
        return replace(self, frame=self.frame[chosen], whole=False)

    def split(self, seed: int) -> Split:
        """The parts: the same for every seed where time decides, else a fresh shuffle."""
        rows = np.arange(self.n_rows)
        if self.order == "random":
            rows = np.random.default_rng([seed, 1]).permutation(self.n_rows)
        cuts = np.round(np.cumsum(self.shares[:2]) * self.n_rows).astype(np.int64)
        return Split(*np.split(rows, cuts))


def require_columns(names: list[str], wanted: tuple[str, ...], source: str) -> None:
    """Refuse a file without the columns that its data set has."""
    if missing := [name for name in wanted if name not in names]:
        raise DataError(
            f"{source} has no column {', '.join(map(repr, missing[:5]))}{' and more' if len(missing) > 5 else ''}; "
            f"its header is {', '.join(names[:8])}{', …' if len(names) > 8 else ''}: is it the file of this data set?"
        )


def require_rows(n_rows: int, wanted: int, source: str) -> None:
    """Refuse a file that was cut short, or another one."""
    if n_rows != wanted:
        raise DataError(
            f"{source} has {n_rows:,} rows where the original has {wanted:,}: download it again, it is not complete"
        )
