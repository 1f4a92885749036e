"""A calibration error against the number of bins: whether a comparison hangs on that choice."""

from collections.abc import Sequence
from typing import Any, Self

from mbct.evaluation.diagnostics.views import DEFAULT_NUMBERS, BinsCurve, compute_bins_curves
from mbct.plots.display import PredictionsDisplay, colours_of
from mbct.plots.style import MARKERS, axes_for, tidy

_TITLES = {"ece": "ECE", "debiased_ece": "debiased ECE", "mvce": "MVCE (closed form)"}


class BinsDisplay(PredictionsDisplay):
    """A line a prediction: the metric for each number of bins.

    Parameters
    ----------
    curves, colours : sequence of BinsCurve, and of str or None, default=None
        Computed results, one a prediction, and their colours, used in turn.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on, after :meth:`plot`.
    """

    def __init__(self, curves: Sequence[BinsCurve], *, colours: Sequence[str] | None = None):
        self.curves = tuple(curves)
        self.colours = colours_of([curve.name for curve in self.curves], colours)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        *,
        metric: str = "ece",
        n_bins: Sequence[int] = DEFAULT_NUMBERS,
        sample_weight: Any = None,
        ax: Any = None,
    ) -> Self:
        """Compute and draw the metric of one prediction or several.

        Parameters
        ----------
        y_true, y_prob, sample_weight, ax : as in :meth:`mbct.plots.ReliabilityDisplay.from_predictions`
            Labels, predictions (by name, if there are several), weights, and where to draw.
        metric : "ece", "debiased_ece" or "mvce", default="ece"
            Error to compute; MVCE in closed form.
        n_bins : sequence of int, default=(5, 10, 15, 20, 32, 50, 75, 100, 150, 200)
            Numbers of bins.
        """
        curves = compute_bins_curves(y_true, y_prob, metric=metric, n_bins=n_bins, sample_weight=sample_weight)
        return cls(curves).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on ``ax``; None makes a new figure."""
        ax = axes_for(ax, 6.0, 3.8)
        for i, (curve, colour) in enumerate(zip(self.curves, self.colours, strict=True)):
            style = {"color": colour, "marker": MARKERS[i % len(MARKERS)], "markersize": 5, "linewidth": 1.8}
            ax.plot(curve.n_bins, curve.value, label=curve.name or None, **style)
        ax.set(xlabel="number of bins", ylabel=_TITLES[self.curves[0].metric])
        ax.set_ylim(bottom=0)
        tidy(ax)
        if any(curve.name for curve in self.curves):
            ax.legend(frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
