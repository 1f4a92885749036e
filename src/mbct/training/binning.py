"""Where numbers are cut: edges of about equal weight, or of equal width."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mbct.errors import ParameterError
from mbct.jit import kernel
from mbct.model.bins import CategoryBins, NumberBins
from mbct.model.encoding import category_key, value_type
from mbct.validation import FloatArray

_TIE = 1e-9


def equal_width_edges(n_bins: int) -> FloatArray:
    """Inner edges of ``n_bins`` bins of [0, 1] of one width; the paper's 100 buckets of the prediction.

    >>> equal_width_edges(4).tolist()
    [0.25, 0.5, 0.75]
    """
    return np.asarray(np.arange(1, n_bins) / n_bins, dtype=np.float64)


def mass_edges(values: FloatArray, weight: FloatArray, n_bins: int) -> FloatArray:
    """Inner edges of at most ``n_bins`` bins of about equal weight, from distinct sorted values and their weight.

    A value too frequent for one bin has a bin of its own, so a column that is 96 % zeros keeps the other
    4 % apart; with at most ``n_bins`` distinct values each has its own. An edge lies between two neighbouring
    values, at the number with the fewest digits there, so that rules read well and a float32 copy of the data
    falls on the same side.

    >>> mass_edges(np.array([0.0, 1.0, 2.0, 3.0]), np.array([96.0, 1.0, 1.0, 2.0]), 3).tolist()
    [0.5, 2.5]
    """
    last = np.arange(len(values) - 1) if len(values) <= n_bins else _last_of_bins(weight, n_bins)
    return np.array([_roundest_between(values[i], values[i + 1]) for i in last], dtype=np.float64)


@kernel
def _last_of_bins(weight: FloatArray, n_bins: int) -> np.ndarray:
    """Positions of the last value of each bin but the final one."""
    last = np.empty(len(weight), np.int64)
    n_edges = 0
    left = weight.sum()
    target = left / n_bins
    gathered = 0.0
    for i in range(len(weight) - 1):
        frequent = weight[i] >= target * (1.0 - _TIE)
        if gathered > 0.0 and frequent:
            last[n_edges] = i - 1
            n_edges += 1
            left -= gathered
            gathered = 0.0
            if n_edges >= n_bins - 1:
                break
        gathered += weight[i]
        if gathered >= target * (1.0 - _TIE):
            last[n_edges] = i
            n_edges += 1
            left -= gathered
            gathered = 0.0
            target = left / max(n_bins - n_edges, 1)
        if n_edges >= n_bins - 1:
            break
    return last[:n_edges].copy()


def _roundest_between(low: float, high: float) -> float:
    """The number with the fewest digits in [low, high), nearest to the middle."""
    middle = low + (high - low) / 2.0
    for digits in range(1, 17):
        rounded = float(f"{middle:.{digits}g}")
        if low < rounded < high:
            return rounded
    return float(middle if low < middle < high else low)


_ROUNDING = 1e-9


@dataclass(frozen=True)
class BinningOptions:
    """How features are cut.

    ``min_category_rows``: a category with less weight shares the code of unseen values; up to 2, which is for values
    that were met once, only where weight counts rows (:func:`counts_rows`). ``score_bins`` cuts the prediction into
    that many buckets, of equal width or (``score_binning="mass"``) of equal weight.
    """

    numeric_bins: int = 128
    score_bins: int = 128
    score_binning: str = "mass"
    min_category_rows: float = 2.0

    def __post_init__(self) -> None:
        for name in ("numeric_bins", "score_bins"):
            if not 1 <= getattr(self, name) <= 65_000:
                raise ParameterError(f"{name}={getattr(self, name)!r} must be between 1 and 65000")
        if self.score_binning not in ("mass", "width"):
            raise ParameterError(f"score_binning={self.score_binning!r} must be 'mass' or 'width'")


def fit_number_bins(name: str, values: FloatArray, weight: FloatArray, n_bins: int) -> NumberBins:
    """Bins of equal weight of a number, from its distinct finite values in rising order."""
    edges = tuple(mass_edges(values, weight, n_bins).tolist()) if len(values) else ()
    return NumberBins(name, edges, tuple(values.tolist()) if len(values) == len(edges) + 1 else ())


def fit_score_bins(name: str, values: FloatArray, weight: FloatArray, options: BinningOptions) -> NumberBins:
    """Bins of the prediction itself: the paper's equal widths, or equal weight."""
    if options.score_binning == "width":
        return NumberBins(name, tuple(equal_width_edges(options.score_bins).tolist()))
    return fit_number_bins(name, values, weight, options.score_bins)


_ONCE = 2.0  # A value of less weight was met once
_BY_CHANCE = 1e-4  # Values that were met once may have one label by chance; with less than this it is no chance


@dataclass(frozen=True)
class RareValues:
    """Weight and positives of all values of a category that are too rare for a code of their own."""

    weight: float
    label: float


def counts_rows(weight: FloatArray, rare: RareValues, rate: float, min_rows: float) -> bool:
    """Whether the weight of a category's values counts rows, so that it tells which were met once.

    ``weight`` is that of the values which are not ``rare``, ``rate`` the rate of positives of all rows. It need not
    count rows, and where positives and negatives weigh differently they sort the values by label: among those of little
    weight are those that were met once, in a row of the lighter class. Unseen values must not be taken for these.
    A ``min_rows`` beyond once is taken at its word.
    """
    if min_rows > _ONCE:
        return True
    amounts = np.append(weight, rare.weight)
    if np.any(np.abs(amounts - np.rint(amounts)) > _ROUNDING * amounts):
        return False
    if rare.label < 0.5:
        return bool((1.0 - rate) ** rare.weight >= _BY_CHANCE)
    return rare.weight - rare.label >= 0.5 or bool(rate**rare.weight >= _BY_CHANCE)


def fit_category_bins(
    name: str,
    values: Sequence[Any],
    weight: FloatArray,
    label: FloatArray,
    pred: FloatArray,
    min_rows: float,
    rate: float,
) -> CategoryBins:
    """Codes of a category, the most frequent value first; rare values are left to the unseen code.

    ``rate`` is the rate of positives of all rows. Equal weights are ordered by label and prediction sums before the
    name, so that renaming the values of a column does not reorder its codes.
    """
    merged: dict[str, list[float]] = {}
    for value, *sums in zip(values, weight.tolist(), label.tolist(), pred.tolist(), strict=True):
        key = category_key(value)
        if key is not None:
            held = merged.setdefault(key, [0.0, 0.0, 0.0])
            for i, amount in enumerate(sums):
                held[i] += amount
    least = min_rows * (1.0 - _ROUNDING)
    kept = [(key, sums) for key, sums in merged.items() if sums[0] >= least]
    too_rare = [sums for sums in merged.values() if sums[0] < least]
    rare = RareValues(sum(sums[0] for sums in too_rare), sum(sums[1] for sums in too_rare))
    if not counts_rows(np.array([sums[0] for _, sums in kept]), rare, rate, min_rows):
        kept = list(merged.items())
    kept.sort(key=lambda item: (*(-float(f"{amount:.10g}") for amount in item[1]), item[0]))
    return CategoryBins(name, tuple(key for key, _ in kept), value_type(list(values)))


def distinct_numbers(values: FloatArray, weight: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Distinct finite values in rising order and the weight of each."""
    present = np.isfinite(values)
    if weight is None:
        distinct, count = np.unique(values[present], return_counts=True)
        return distinct, count.astype(np.float64)
    order = np.argsort(values[present], kind="stable")
    ranked = values[present][order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]]) if len(ranked) else np.array([], dtype=int)
    weight = np.add.reduceat(weight[present][order], starts) if len(starts) else np.array([])
    return ranked[starts], weight
