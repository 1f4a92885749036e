"""PUD strips: the sub-groups of each bin, one method beside another (the paper's figure)."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from mbct.calibrators.score_only.binning import HistogramCalibrator
from mbct.evaluation.diagnostics.calibrated_rows import calibrated_rows
from mbct.evaluation.diagnostics.subgroups import (
    DEFAULT_PARTS,
    SubgroupRatios,
    compare_with_histogram,
    compute_subgroups,
    ratio_limits,
)
from mbct.evaluation.metrics.rows import read_one_column
from mbct.plots.display import by_name, colours_of
from mbct.plots.style import BEFORE, PALETTE, axes_for, ratio_axis, tidy

DEFAULT_BINS = 10


class PUDDisplay:
    """Mean prediction / label rate of the equal parts of each bin: near 1 where the rows of a bin share one bias.

    Parameters
    ----------
    strips, colours : sequence of SubgroupRatios, and of str, default=PALETTE
        Computed results, one a method, and their colours, used in turn.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on, after :meth:`plot`.
    """

    def __init__(self, strips: Sequence[SubgroupRatios], *, colours: Sequence[str] = PALETTE):
        self.strips = tuple(strips)
        self.colours = colours_of([strip.name for strip in self.strips], colours)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        *,
        bins: Any,
        order: Any = None,
        n_parts: int = DEFAULT_PARTS,
        sample_weight: Any = None,
        ax: Any = None,
    ) -> Self:
        """Compute and draw the sub-groups of one method or several.

        Parameters
        ----------
        y_true, y_prob, sample_weight, ax : as in :meth:`mbct.plots.ReliabilityDisplay.from_predictions`
            Labels, predictions (by the method's name, if there are several), weights, and where to draw.
        bins : array, or mapping of names to arrays
            Number of each row's bin, for all methods or by the method's name.
        order : array or None, default=None
            Numbers along which bins are cut, such as codes of a feature; None takes the prediction.
        n_parts : int, default=4
            Parts of equal weight that each bin is cut into.
        """
        named = by_name(y_prob)
        bins_of = bins if isinstance(bins, Mapping) else dict.fromkeys(named, bins)
        strips = [
            compute_subgroups(
                y_true, column, bins_of[name], order=order, n_parts=n_parts, name=str(name), sample_weight=sample_weight
            )
            for name, column in named.items()
        ]
        return cls(strips).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        calibrator: Any,
        X: Any,
        y: Any,
        *,
        by: str | None = None,
        n_bins: int = DEFAULT_BINS,
        n_parts: int = DEFAULT_PARTS,
        sample_weight: Any = None,
        y_prob: Any = None,
        ax: Any = None,
    ) -> Self:
        """A fitted calibrator beside histogram binning of the same score, fitted on these rows.

        The calibrator's bins hold rows that it moves by about the same factor.

        Parameters
        ----------
        calibrator, X, y, sample_weight, y_prob : as in :meth:`mbct.plots.ReliabilityDisplay.from_estimator`
            A fitted calibrator and labelled rows.
        by : str or None, default=None
            Column of ``X`` along which bins are cut; None cuts them by prediction.
        n_bins, n_parts : int, default=10 and 4
            Bins of each method, and parts of equal weight that each bin is cut into.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a new figure.
        """
        rows = calibrated_rows(calibrator, X, y, sample_weight=sample_weight, y_prob=y_prob)
        codes = np.zeros(len(rows.before)) if by is None else read_one_column(rows.fields(by), "by").codes
        histogram = HistogramCalibrator(n_bins=n_bins, smoothing=0.0).fit(rows.before, rows.y_true, rows.weight)
        strips = compare_with_histogram(rows, histogram, codes, n_bins, n_parts, calibrator.method)
        return cls(strips, colours=(PALETTE[0], BEFORE)).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on ``ax`` a column of dots a bin, the methods one after the other; None makes a new figure."""
        n_bins = sum(len(strip.ratio) for strip in self.strips)
        ax = axes_for(ax, 1.6 + 0.34 * n_bins, 4.2)
        ratio_axis(ax, "y", *ratio_limits([strip.ratio for strip in self.strips], widest=10.0))
        low, high = ax.get_ylim()
        start, ticks, labels = 0.0, [], []
        for strip, colour in zip(self.strips, self.colours, strict=True):
            at = start + np.arange(len(strip.ratio))
            shown = np.clip(strip.ratio, low, high)  # a part without a positive lies at the upper end
            ax.vlines(
                at, np.fmin.reduce(shown, axis=1), np.fmax.reduce(shown, axis=1), color=colour, linewidth=5, alpha=0.22
            )
            ax.scatter(np.repeat(at, strip.ratio.shape[1]), shown.ravel(), s=20, color=colour, zorder=3)
            ticks += at.tolist()
            labels += [str(number + 1) for number in range(len(at))]
            title = f"{strip.name}: mean |log PUD| {strip.spread:.3f}" if strip.name else f"{strip.spread:.3f}"
            place: Any = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "ha": "center"}
            ax.annotate(title, (at.mean(), 1.0), (0, 6), color=colour, va="bottom", fontsize=9.5, **place)
            start += len(at) + 1.0
        ax.set_xticks(ticks, labels, fontsize=8)
        ax.set(xlabel="bin", ylabel="PUD of its parts", xlim=(-0.8, start - 1.2))
        tidy(ax, grid="y")
        self.ax_, self.figure_ = ax, ax.figure
        return self
