"""Bins from distinct values and their sums: what one GROUP BY of a column returns in any engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mbct.binning.edges import equal_width_edges, mass_edges
from mbct.binning.features import CategoryBins, NumberBins
from mbct.binning.keys import category_key, value_type
from mbct.errors import ParameterError
from mbct.validation import FloatArray


@dataclass(frozen=True)
class BinningOptions:
    """How features are cut.

    ``min_category_rows``: a category with less mass shares the code of unseen values. ``score_bins`` cuts the
    prediction into that many buckets, of equal width or (``score_by="mass"``) of equal mass.
    """

    number_bins: int = 128
    score_bins: int = 128
    score_by: str = "mass"
    min_category_rows: float = 2.0

    def __post_init__(self) -> None:
        for name in ("number_bins", "score_bins"):
            if not 1 <= getattr(self, name) <= 65_000:
                raise ParameterError(f"{name}={getattr(self, name)!r} must be between 1 and 65000")
        if self.score_by not in ("mass", "width"):
            raise ParameterError(f"score_by={self.score_by!r} must be 'mass' or 'width'")


def fit_number_bins(name: str, values: FloatArray, mass: FloatArray, n_bins: int) -> NumberBins:
    """Mass bins of a number, from its distinct finite values in rising order."""
    return NumberBins(name, tuple(mass_edges(values, mass, n_bins).tolist()) if len(values) else ())


def fit_score_bins(name: str, values: FloatArray, mass: FloatArray, options: BinningOptions) -> NumberBins:
    """Bins of the prediction itself: the paper's equal widths, or equal mass."""
    if options.score_by == "width":
        return NumberBins(name, tuple(equal_width_edges(options.score_bins).tolist()))
    return fit_number_bins(name, values, mass, options.score_bins)


def fit_category_bins(
    name: str, values: Sequence[Any], mass: FloatArray, label: FloatArray, pred: FloatArray, min_rows: float
) -> CategoryBins:
    """Codes of a category, the most frequent value first; rare values are left to the unseen code.

    Equal masses are ordered by label and prediction sums before the name, so that renaming the values of a column
    does not reorder its codes.
    """
    merged: dict[str, list[float]] = {}
    for value, *sums in zip(values, mass.tolist(), label.tolist(), pred.tolist(), strict=True):
        key = category_key(value)
        if key is not None:
            held = merged.setdefault(key, [0.0, 0.0, 0.0])
            for i, amount in enumerate(sums):
                held[i] += amount
    kept = [(key, sums) for key, sums in merged.items() if sums[0] >= min_rows]
    kept.sort(key=lambda item: (*(-float(f"{amount:.10g}") for amount in item[1]), item[0]))
    return CategoryBins(name, tuple(key for key, _ in kept), value_type(list(values)))


def distinct_numbers(values: FloatArray, weight: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Distinct finite values in rising order and the mass of each."""
    present = np.isfinite(values)
    if weight is None:
        distinct, count = np.unique(values[present], return_counts=True)
        return distinct, count.astype(np.float64)
    order = np.argsort(values[present], kind="stable")
    ranked = values[present][order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]]) if len(ranked) else np.array([], dtype=int)
    mass = np.add.reduceat(weight[present][order], starts) if len(starts) else np.array([])
    return ranked[starts], mass
