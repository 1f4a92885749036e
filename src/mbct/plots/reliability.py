"""The reliability diagram: what happened against what was predicted, with bands and a histogram."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from mbct.errors import ParameterError
from mbct.evaluation.diagnostics.reliability import ReliabilityCurve, compute_panels, compute_reliability
from mbct.plots.display import PredictionsDisplay, by_name, colours_of
from mbct.plots.style import MARKERS, NEUTRAL, axes_for, pyplot, tidy
from mbct.validation import as_probabilities

_MOST_MARKED = 30
_COLUMNS = 3  # Panels side by side


class ReliabilityDisplay(PredictionsDisplay):
    """Label rate against prediction, by isotonic regression (CORP) or over bins; right predictions lie on the diagonal.

    Parameters
    ----------
    curves, colours : sequence of ReliabilityCurve, and of str or None, default=None
        Computed results, one a prediction, and their colours, used in turn.

    Attributes
    ----------
    ax_, figure_, histogram_ax_ : matplotlib Axes, Figure, and Axes or None
        What was drawn on, after :meth:`plot`; None without a histogram.
    """

    def __init__(self, curves: Sequence[ReliabilityCurve], *, colours: Sequence[str] | None = None):
        self.curves = tuple(curves)
        self.colours = colours_of([curve.name for curve in self.curves], colours)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        *,
        n_bins: int | None = None,
        confidence: float = 0.95,
        sample_weight: Any = None,
        time: Any = None,
        groups: Any = None,
        block: str | int = "day",
        ax: Any = None,
        histogram: bool = True,
    ) -> Self:
        """Compute and draw the diagram of one prediction or several.

        Parameters
        ----------
        y_true : array
            Labels, 0 or 1.
        y_prob : array, or mapping of names to arrays
            Predicted probabilities; a mapping draws several in one diagram.
        n_bins : int or None, default=None
            Number of bins of equal weight; None draws the isotonic fit (CORP), which has no bins to choose.
        confidence : float, default=0.95
            Level of the intervals.
        sample_weight : array, number or None, default=None
            Weights of the rows; None counts each row once.
        time, groups : array or None, default=None
            When each row happened, and the group that it belongs to, such as a patient: rows of one block or group vary
            together, which widens the intervals.
        block : {"day", "week", "hour"} or int, default="day"
            Length of a block of ``time``, or a number of equal stretches.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a new figure.
        histogram : bool, default=True
            Whether a histogram of the predictions is drawn below.
        """
        named = by_name(y_prob)
        options: Any = {"n_bins": n_bins, "confidence": confidence, "sample_weight": sample_weight}
        options |= {"time": time, "groups": groups, "block": block}
        options["reach"] = max(float(as_probabilities(p).max()) for p in named.values())  # histograms share their bars
        curves = [compute_reliability(y_true, p, name=str(name), **options) for name, p in named.items()]
        return cls(curves).plot(ax, histogram=histogram)

    def plot(self, ax: Any = None, *, histogram: bool = True) -> Self:
        """Draw on ``ax``, or a new figure if it is None; the ``histogram``, if wanted, takes the lower part of it."""
        ax = axes_for(ax, 5.6, 6.2 if histogram else 5.4)
        highest = min(max(curve.highest for curve in self.curves) * 1.04, 1.02)
        ax.plot([0, highest], [0, highest], color=NEUTRAL, linewidth=1.2, linestyle=(0, (4, 3)), zorder=1)
        for i, curve in enumerate(self.curves):
            self._draw_curve(ax, curve, i)
        ax.set(xlim=(0, highest), ylim=(0, highest), ylabel="label rate")
        tidy(ax)
        self.histogram_ax_ = None
        if histogram:
            self._draw_histogram(ax, highest)
        else:
            ax.set_xlabel("mean prediction")
        if any(curve.name for curve in self.curves):
            ax.legend(loc="upper left", frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_curve(self, ax: Any, curve: ReliabilityCurve, number: int) -> None:
        colour = self.colours[number]
        ax.fill_between(curve.mean_prediction, curve.lower, curve.upper, color=colour, alpha=0.16, linewidth=0)
        ax.plot(
            curve.mean_prediction,
            curve.label_rate,
            color=colour,
            # The ends of many blocks would be a string of beads.
            marker=MARKERS[number % len(MARKERS)] if len(curve.label_rate) <= _MOST_MARKED else None,
            markersize=5,
            linewidth=1.8,
            label=curve.name or None,
            zorder=3 + number,
        )

    def _draw_histogram(self, ax: Any, highest: float) -> None:
        below = ax.inset_axes([0.0, -0.3, 1.0, 0.2])
        for curve, colour in zip(self.curves, self.colours, strict=True):
            below.stairs(curve.histogram, curve.ends, color=colour, linewidth=1.4)
            below.stairs(curve.histogram, curve.ends, color=colour, fill=True, alpha=0.16)
        below.set(xlim=(0, highest), xlabel="prediction", ylabel="share of rows")
        below.set_ylim(bottom=0)
        tidy(below, grid="y")
        below.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        ax.tick_params(labelbottom=False)
        self.histogram_ax_ = below


class SegmentReliabilityDisplay(PredictionsDisplay):
    """Small diagrams side by side, one a segment, largest first; each may hold several predictions.

    Parameters
    ----------
    curves, colours : mapping of str to sequences of ReliabilityCurve, and sequence of str or None, default=None
        Computed curves of each prediction, one a panel, and the colours of the predictions, used in turn.

    Attributes
    ----------
    axes_, figure_ : array of matplotlib Axes and Figure
        What was drawn on, after :meth:`plot`.
    """

    _by_columns = True

    def __init__(self, curves: Mapping[str, Sequence[ReliabilityCurve]], *, colours: Sequence[str] | None = None):
        self.curves = {name: tuple(panels) for name, panels in curves.items()}
        self.colours = colours_of(list(self.curves), colours)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        *,
        by: Any,
        n_bins: int | None = None,
        max_panels: int = 6,
        confidence: float = 0.95,
        sample_weight: Any = None,
        time: Any = None,
        groups: Any = None,
        block: str | int = "day",
        axes: Any = None,
    ) -> Self:
        """Compute and draw a diagram for each segment.

        Parameters
        ----------
        y_true, y_prob, sample_weight, confidence, time, groups, block : as in \
            :meth:`ReliabilityDisplay.from_predictions`
            Labels, predictions (by name, if there are several), weights, the level of the intervals, and which rows
            belong together.
        by : array
            Column whose values are the segments.
        n_bins, max_panels : int or None, default=None, and int, default=6
            Bins of equal weight in each panel (None: isotonic), and segments that are drawn, largest first.
        axes : array of matplotlib Axes or None, default=None
            At least as many as panels; None makes a new figure.
        """
        options: Any = {"n_bins": n_bins, "confidence": confidence, "sample_weight": sample_weight}
        options |= {"time": time, "groups": groups, "block": block}
        panels = {
            str(name): compute_panels(y_true, p, by, max_panels=max_panels, **options)
            for name, p in by_name(y_prob).items()
        }
        return cls(panels).plot(axes)

    def plot(self, axes: Any = None) -> Self:
        """Draw a panel a segment on ``axes``, at least as many as panels; None makes a new figure."""
        panels = list(zip(*self.curves.values(), strict=True))
        axes = self._axes(axes, len(panels))
        for ax, panel in zip(axes, panels, strict=False):
            ReliabilityDisplay(panel, colours=self.colours).plot(ax, histogram=False)
            ax.legend().remove()
            ax.set_title(f"{panel[0].name}  ({panel[0].n_rows:,.0f} rows)", fontsize=10, loc="left")
        for ax in axes[len(panels) :]:
            ax.set_visible(False)
        if any(self.curves):
            axes[0].legend(axes[0].lines[1:], list(self.curves), frameon=False, loc="upper left", fontsize=9)
        self.axes_, self.figure_ = axes[: len(panels)], axes[0].figure
        return self

    @staticmethod
    def _axes(axes: Any, n_panels: int) -> Any:
        if axes is not None:
            given = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
            if len(given) < n_panels:
                raise ParameterError(f"{n_panels} panels need as many axes, got {len(given)}; lower max_panels")
            return given
        columns = min(_COLUMNS, n_panels)
        lines = math.ceil(n_panels / columns)
        size = (3.4 * columns, 3.3 * lines)
        return pyplot().subplots(lines, columns, figsize=size, layout="constrained", squeeze=False)[1].ravel()
