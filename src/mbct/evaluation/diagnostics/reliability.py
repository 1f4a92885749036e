"""Reliability curves, isotonic or of bins, and closed-form intervals of a label rate."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.special import ndtri

from mbct.evaluation.metrics.rows import Rows, check_confidence, check_count, read_one_column, read_rows
from mbct.evaluation.metrics.totals import compare_totals
from mbct.stats.divisions import Bins, equal_width, uniform_mass
from mbct.stats.probabilities import isotonic_rates
from mbct.stats.testing import effective_share
from mbct.training.folds import BlockColumns, BlockSize
from mbct.validation import FloatArray


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
    time: Any = None,
    groups: Any = None,
    block: BlockSize = "day",
) -> ReliabilityCurve:
    """Isotonic label rate over the prediction with a band (CORP), or that of ``n_bins`` bins with Wilson's intervals.

    CORP (Dimitriadis, Gneiting & Jordan 2021) leaves no bins to choose; its area to the diagonal is miscalibration.
    ``reach`` is where the histogram ends; None takes the largest prediction. With arrays of ``time`` or ``groups`` the
    intervals go by whole blocks: a ``block`` of time is a "day", "week", "hour" or one of a number of stretches.

    >>> curve = compute_reliability([0, 0, 1, 1], [0.1, 0.2, 0.7, 0.8], n_bins=2)
    >>> curve.mean_prediction.round(2).tolist(), curve.label_rate.tolist()
    ([0.15, 0.75], [0.0, 1.0])
    """
    if n_bins is not None:
        check_count("n_bins", n_bins)
    rows = read_rows(y_true, y_prob, sample_weight, together=BlockColumns(time, groups, block))
    return reliability_of_rows(rows, name, n_bins, confidence, reach)


def compute_panels(
    y_true: Any,
    y_prob: Any,
    by: Any,
    *,
    n_bins: int | None = None,
    confidence: float = 0.95,
    sample_weight: Any = None,
    max_panels: int = 6,
    time: Any = None,
    groups: Any = None,
    block: BlockSize = "day",
) -> tuple[ReliabilityCurve, ...]:
    """:func:`compute_reliability` of each of the largest values of one column, largest first."""
    if n_bins is not None:
        check_count("n_bins", n_bins)
    check_count("max_panels", max_panels)
    values = read_one_column(by, "by")
    rows = read_rows(y_true, y_prob, sample_weight, (values.codes,), BlockColumns(time, groups, block))
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
    if n_bins is None:
        x, rate, lower, upper, count = _corp(rows, check_confidence(confidence))
    else:
        bins = uniform_mass(rows.atoms, min(n_bins, len(rows)))
        x, rate, count = bins.pred / bins.count, bins.label / bins.count, bins.count
        lower, upper = wilson_interval(rate, _size_of_bins(rows, bins, confidence), confidence)
    end = float(rows.y_prob.max()) if reach is None else reach
    end = end if end > 0.0 else 1.0
    in_parts_of_end = Rows(np.minimum(rows.y_prob / end, 1.0), rows.y_true, rows.weight)
    bars = equal_width(in_parts_of_end.atoms, HISTOGRAM_BARS)
    total = float(rows.weight.sum())
    return ReliabilityCurve(name, x, rate, lower, upper, count, bars.count / total, end, confidence, total)


def _size_of_bins(rows: Rows, bins: Bins, confidence: float) -> FloatArray:
    """Independent rows that each bin is worth: rows of blocks vary together and are worth fewer."""
    if rows.blocks is None:
        return bins.count * effective_share(rows.weight)
    found = compare_totals(rows, _bin_of_rows(rows, bins), len(bins), confidence)
    return bins.count * found.size / np.maximum(found.sums.count, 1e-300)


def _bin_of_rows(rows: Rows, bins: Bins) -> npt.NDArray[np.int64]:
    """Number of the bin of each row, whose ends are taken half-way between the mean predictions."""
    mean = bins.pred / bins.count
    return np.searchsorted((mean[1:] + mean[:-1]) / 2.0, rows.y_prob)


def _corp(rows: Rows, confidence: float) -> tuple[FloatArray, ...]:
    """Ends of the blocks of the isotonic fit: prediction, rate, ends of the band, weight of the block.

    The band holds the fits to labels drawn from the fit itself, to which half a row of each class is added in each
    block, so that blocks of one class have a width too; more than 1,000 predictions are first put into as many bins.
    Where rows belong to blocks of time or groups, it holds the fits to whole such blocks resampled as well.
    """
    merged = uniform_mass(rows.atoms, _MOST_ATOMS) if len(rows.atoms) > _MOST_ATOMS else rows.atoms
    start, blocks = merged.pooled, merged.joined(merged.pooled)
    last = np.append(start[1:], len(merged)) - 1
    share = effective_share(rows.weight)
    drawn_from = np.repeat((blocks.label * share + 0.5) / (blocks.count * share + 1.0), last - start + 1)
    n_rows = np.maximum(np.rint(merged.count * share), 1.0).astype(np.int64)
    ends = np.unique(np.concatenate([start, last]))
    rng = np.random.default_rng(0)
    fits = [
        isotonic_rates(replace(merged, label=rng.binomial(n_rows, drawn_from) / n_rows * merged.count))[ends]
        for _ in range(_DRAWS)
    ]
    tail = (1.0 - confidence) / 2.0
    rate = isotonic_rates(merged)[ends]
    bands = [np.quantile(fits, [tail, 1.0 - tail], axis=0), np.stack([rate, rate])]
    if rows.blocks is not None:
        bands.append(np.quantile(_resampled_fits(rows, rows.blocks, merged)[:, ends], [tail, 1.0 - tail], axis=0))
    x, weight = (merged.pred / merged.count)[ends], blocks.count[np.searchsorted(start, ends, side="right") - 1]
    return x, rate, np.min([low for low, _ in bands], axis=0), np.max([high for _, high in bands], axis=0), weight


def _resampled_fits(rows: Rows, blocks: npt.NDArray[np.int32], bins: Bins) -> FloatArray:
    """Isotonic rates of the bins in resamples of whole blocks of rows, one after the other."""
    rng, number, n_blocks = np.random.default_rng(0), _bin_of_rows(rows, bins), int(blocks.max()) + 1
    shape = len(bins), n_blocks
    of_blocks = [csr_array((sums, (number, blocks)), shape) for sums in (rows.weight, rows.weight * rows.y_true)]
    fits = np.empty((_DRAWS, len(bins)))
    for fit in fits:
        times = np.bincount(rng.integers(n_blocks, size=n_blocks), minlength=n_blocks)
        count, label = (sums @ times for sums in of_blocks)
        # An empty bin bends to its neighbours.
        fit[:] = isotonic_rates(Bins(np.maximum(count, 1e-9), label, bins.pred))
    return fits
