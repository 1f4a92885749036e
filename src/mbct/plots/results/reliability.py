"""The reliability curve: label rate against prediction over bins of equal mass, with its band and histogram."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mbct.metrics.rows import Rows, check_count, read_rows
from mbct.metrics.segments import read_one_column
from mbct.plots.results.intervals import effective_share, wilson_interval
from mbct.stats.divisions import equal_width, uniform_mass
from mbct.validation import FloatArray

DEFAULT_BINS = 15
HISTOGRAM_BARS = 40


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Bins by rising prediction: mean prediction, label rate, its interval and mass; beside them a histogram."""

    name: str
    mean_prediction: FloatArray
    label_rate: FloatArray
    lower: FloatArray
    upper: FloatArray
    count: FloatArray
    histogram: FloatArray
    """Share of the rows in each bar; the bars are equally wide and reach from 0 to ``reach``."""
    reach: float
    confidence: float
    n_rows: float

    @property
    def ends(self) -> FloatArray:
        """Both ends of every bar."""
        return np.linspace(0.0, self.reach, len(self.histogram) + 1)

    @property
    def highest(self) -> float:
        """The largest value to be drawn."""
        return float(max(self.mean_prediction.max(), self.upper.max()))


def compute_reliability(
    y_true: Any,
    y_prob: Any,
    *,
    name: str = "",
    n_bins: int = DEFAULT_BINS,
    confidence: float = 0.95,
    sample_weight: Any = None,
    reach: float | None = None,
) -> ReliabilityCurve:
    """Label rate of ``n_bins`` bins of equal mass, each with Wilson's interval.

    ``reach`` is where the histogram ends; None takes the largest prediction.

    >>> curve = compute_reliability([0, 0, 1, 1], [0.1, 0.2, 0.7, 0.8], n_bins=2)
    >>> curve.mean_prediction.round(2).tolist(), curve.label_rate.tolist()
    ([0.15, 0.75], [0.0, 1.0])
    """
    check_count("n_bins", n_bins)
    return reliability_of_rows(read_rows(y_true, y_prob, sample_weight), name, n_bins, confidence, reach)


def compute_panels(
    y_true: Any,
    y_prob: Any,
    by: Any,
    *,
    n_bins: int = 8,
    confidence: float = 0.95,
    sample_weight: Any = None,
    max_panels: int = 6,
) -> tuple[ReliabilityCurve, ...]:
    """A curve for each of the largest values of one column, largest first."""
    check_count("n_bins", n_bins)
    check_count("max_panels", max_panels)
    values = read_one_column(by, "by")
    rows = read_rows(y_true, y_prob, sample_weight, (values.codes,))
    mass = np.bincount(rows.groups[0], rows.weight, len(values))
    largest = [code for code in np.argsort(-mass, kind="stable")[:max_panels] if mass[code] > 0]
    return tuple(
        reliability_of_rows(
            rows.take(rows.groups[0] == code), f"{values.name} = {values.labels[code]}", n_bins, confidence, None
        )
        for code in largest
    )


def reliability_of_rows(rows: Rows, name: str, n_bins: int, confidence: float, reach: float | None) -> ReliabilityCurve:
    """The curve of rows that were checked before."""
    bins = uniform_mass(rows.atoms, min(n_bins, len(rows)))
    rate = bins.label / bins.count
    lower, upper = wilson_interval(rate, bins.count * effective_share(rows.weight), confidence)
    end = float(rows.y_prob.max()) if reach is None else reach
    end = end if end > 0.0 else 1.0
    bars = equal_width(_stretched(rows, end).atoms, HISTOGRAM_BARS)
    total = float(rows.weight.sum())
    return ReliabilityCurve(
        name, bins.pred / bins.count, rate, lower, upper, bins.count, bars.count / total, end, confidence, total
    )


def _stretched(rows: Rows, end: float) -> Rows:
    """The rows with predictions measured in parts of ``end``."""
    return Rows(np.minimum(rows.y_prob / end, 1.0), rows.y_true, rows.weight)
