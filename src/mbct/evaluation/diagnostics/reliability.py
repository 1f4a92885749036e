"""Reliability curves, isotonic or of bins, and closed-form intervals of a label rate."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri, pdtr, pdtrc

from mbct.evaluation.metrics.rows import Rows, check_confidence, check_count, read_one_column, read_rows
from mbct.stats.divisions import Bins, equal_width, pooled_blocks, uniform_mass
from mbct.stats.scores import isotonic_rates
from mbct.validation import FloatArray

FEW_EXPECTED = 10.0
"""Below this variance of the number of positives the normal law is too thin in the tails, and Poisson's is used."""


def effective_share(weight: FloatArray) -> float:
    """Σw / Σw²: how many equally weighted rows one unit of weight is worth (Kish); 1 without weights."""
    return float(weight.sum() / np.sum(weight**2))


def wilson_interval(label_rate: FloatArray, size: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Wilson's interval of a rate over ``size`` rows: never outside [0, 1], sensible at 0 and 1.

    >>> low, high = wilson_interval(np.array([0.0, 0.5]), np.array([10.0, 100.0]), 0.95)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.404], [0.278, 0.596])
    """
    z = float(ndtri(0.5 + check_confidence(confidence) / 2.0))
    n = np.maximum(size, 1e-12)
    centre = (label_rate + z * z / (2.0 * n)) / (1.0 + z * z / n)
    half = z / (1.0 + z * z / n) * np.sqrt(label_rate * (1.0 - label_rate) / n + z * z / (4.0 * n * n))
    return np.clip(centre - half, 0.0, 1.0), np.clip(centre + half, 0.0, 1.0)


def total_p_values(label: FloatArray, pred: FloatArray, variance: FloatArray, share: float) -> FloatArray:
    """Two-sided p-value of Σy against Σp as if the predictions were right.

    ``variance`` is Σw²p(1 − p). The normal law where ten or more are expected, else Poisson's, whose tails are wider
    than those of any sum of unequal coins with that mean (Hoeffding 1956). ``share`` turns weights into rows.

    >>> total_p_values(np.array([60.0]), np.array([50.0]), np.array([25.0]), 1.0).round(4).tolist()
    [0.0455]
    """
    normal = 2.0 * ndtr(-np.abs(label - pred) / np.sqrt(np.maximum(variance, 1e-300)))
    seen, expected = label * share, pred * share
    at_most, at_least = pdtr(np.floor(seen), expected), np.where(seen > 0, pdtrc(np.ceil(seen) - 1.0, expected), 1.0)
    poisson = np.minimum(2.0 * np.minimum(at_most, at_least), 1.0)
    return np.asarray(np.where(variance * share**2 >= FEW_EXPECTED, normal, poisson), dtype=np.float64)


HISTOGRAM_BARS = 40
_MOST_ATOMS = 1000
_DRAWS = 200
_SMALL_BLOCK = 0.005


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Points by rising prediction: mean prediction, label rate, its interval and weight; beside them a histogram.

    A point is a bin or, of a CORP curve, either end of a block of the isotonic fit, at the block's rate.
    """

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
        """The largest value to be drawn; a few rows at the end, often of rate 1, do not stretch the axes."""
        large = self.count >= _SMALL_BLOCK * self.n_rows
        shown = large if large.any() else np.ones(len(large), dtype=np.bool_)
        upper = min(self.upper[shown].max(), 2.0 * max(self.label_rate[shown].max(), self.mean_prediction[shown].max()))
        return float(max(self.mean_prediction[shown].max(), upper))


def compute_reliability(
    y_true: Any,
    y_prob: Any,
    *,
    name: str = "",
    n_bins: int | None = None,
    confidence: float = 0.95,
    sample_weight: Any = None,
    reach: float | None = None,
) -> ReliabilityCurve:
    """Isotonic label rate over the prediction with a band (CORP), or that of ``n_bins`` bins with Wilson's intervals.

    CORP (Dimitriadis, Gneiting & Jordan 2021) leaves no bins to choose; its area to the diagonal is miscalibration.
    ``reach`` is where the histogram ends; None takes the largest prediction.

    >>> curve = compute_reliability([0, 0, 1, 1], [0.1, 0.2, 0.7, 0.8], n_bins=2)
    >>> curve.mean_prediction.round(2).tolist(), curve.label_rate.tolist()
    ([0.15, 0.75], [0.0, 1.0])
    """
    if n_bins is not None:
        check_count("n_bins", n_bins)
    return reliability_of_rows(read_rows(y_true, y_prob, sample_weight), name, n_bins, confidence, reach)


def compute_panels(
    y_true: Any,
    y_prob: Any,
    by: Any,
    *,
    n_bins: int | None = None,
    confidence: float = 0.95,
    sample_weight: Any = None,
    max_panels: int = 6,
) -> tuple[ReliabilityCurve, ...]:
    """A curve for each of the largest values of one column, largest first."""
    if n_bins is not None:
        check_count("n_bins", n_bins)
    check_count("max_panels", max_panels)
    values = read_one_column(by, "by")
    rows = read_rows(y_true, y_prob, sample_weight, (values.codes,))
    weight = np.bincount(rows.groups[0], rows.weight, len(values))
    largest = [code for code in np.argsort(-weight, kind="stable")[:max_panels] if weight[code] > 0]
    return tuple(
        reliability_of_rows(
            rows.take(rows.groups[0] == code), f"{values.name} = {values.labels[code]}", n_bins, confidence, None
        )
        for code in largest
    )


def reliability_of_rows(
    rows: Rows, name: str, n_bins: int | None, confidence: float, reach: float | None
) -> ReliabilityCurve:
    """The curve of rows that were checked before."""
    share = effective_share(rows.weight)
    if n_bins is None:
        x, rate, lower, upper, count = _corp(rows.atoms, share, check_confidence(confidence))
    else:
        bins = uniform_mass(rows.atoms, min(n_bins, len(rows)))
        x, rate, count = bins.pred / bins.count, bins.label / bins.count, bins.count
        lower, upper = wilson_interval(rate, count * share, confidence)
    end = float(rows.y_prob.max()) if reach is None else reach
    end = end if end > 0.0 else 1.0
    in_parts_of_end = Rows(np.minimum(rows.y_prob / end, 1.0), rows.y_true, rows.weight)
    bars = equal_width(in_parts_of_end.atoms, HISTOGRAM_BARS)
    total = float(rows.weight.sum())
    return ReliabilityCurve(name, x, rate, lower, upper, count, bars.count / total, end, confidence, total)


def _corp(atoms: Bins, share: float, confidence: float) -> tuple[FloatArray, ...]:
    """Ends of the blocks of the isotonic fit: prediction, rate, ends of the band, weight of the block.

    The band holds the fits to labels drawn from the fit itself, to which half a row of each class is added in each
    block, so that blocks of one class have a width too; more than 1,000 predictions are first put into as many bins.
    """
    merged = uniform_mass(atoms, _MOST_ATOMS) if len(atoms) > _MOST_ATOMS else atoms
    start = pooled_blocks(merged.count, merged.label)
    last = np.append(start[1:], len(merged)) - 1
    size, label = np.add.reduceat(merged.count, start), np.add.reduceat(merged.label, start)
    drawn_from = np.repeat((label * share + 0.5) / (size * share + 1.0), last - start + 1)
    n_rows = np.maximum(np.rint(merged.count * share), 1.0).astype(np.int64)
    ends = np.unique(np.concatenate([start, last]))
    rng = np.random.default_rng(0)
    fits = [
        isotonic_rates(replace(merged, label=rng.binomial(n_rows, drawn_from) / n_rows * merged.count))[ends]
        for _ in range(_DRAWS)
    ]
    tail = (1.0 - confidence) / 2.0
    lower, upper = np.quantile(fits, [tail, 1.0 - tail], axis=0)
    rate = isotonic_rates(merged)[ends]
    x, weight = (merged.pred / merged.count)[ends], size[np.searchsorted(start, ends, side="right") - 1]
    return x, rate, np.minimum(lower, rate), np.maximum(upper, rate), weight
