"""The decision curve: net benefit of acting on predictions, over the threshold from which on one acts."""

from collections.abc import Sequence
from typing import Any, Self

from mbct.evaluation.diagnostics.decision_curve import DecisionCurve, compute_decision_curve
from mbct.plots.display import PredictionsDisplay, by_name, colours_of
from mbct.plots.style import NEUTRAL, axes_for, tidy


class DecisionCurveDisplay(PredictionsDisplay):
    """A line a prediction, beside acting on all rows (dashed) and on none (0): higher is better (Vickers & Elkin 2006).

    Parameters
    ----------
    curves, colours : sequence of DecisionCurve, and of str or None, default=None
        Computed results, one a prediction, and their colours, used in turn.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on, after :meth:`plot`.
    """

    def __init__(self, curves: Sequence[DecisionCurve], *, colours: Sequence[str] | None = None):
        self.curves = tuple(curves)
        self.colours = colours_of([curve.name for curve in self.curves], colours)

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_prob: Any, *, thresholds: Any = None, sample_weight: Any = None, ax: Any = None
    ) -> Self:
        """Compute and draw the curve of one prediction or several.

        Parameters
        ----------
        y_true, y_prob, sample_weight, ax : as in :meth:`mbct.plots.ReliabilityDisplay.from_predictions`
            Labels, predictions (by name, if there are several), weights, and where to draw.
        thresholds : array or None, default=None
            Probabilities below 1 from which on one acts; None takes 100 up to the 99th percentile of the predictions.
        """
        curves = [
            compute_decision_curve(
                y_true, p, name=str(name) or "predictions", thresholds=thresholds, sample_weight=sample_weight
            )
            for name, p in by_name(y_prob).items()
        ]
        return cls(curves).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on ``ax``, or a new figure if it is None."""
        ax = axes_for(ax, 5.6, 4.2)
        first = self.curves[0]
        ax.axhline(0.0, color=NEUTRAL, linewidth=1.2)
        ax.plot(
            first.threshold, first.act_on_all, color=NEUTRAL, linewidth=1.2, linestyle=(0, (4, 3)), label="all rows"
        )
        for curve, colour in zip(self.curves, self.colours, strict=True):
            ax.plot(curve.threshold, curve.net_benefit, color=colour, linewidth=1.8, label=curve.name)
        highest = max(float(curve.net_benefit.max()) for curve in self.curves)
        ax.set(xlabel="threshold", ylabel="net benefit", ylim=(-0.15 * highest, 1.08 * highest))
        ax.legend(frameon=False)
        tidy(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self
