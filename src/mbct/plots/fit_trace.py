"""How the losses fell while the trees grew: local loss of each split node, global loss of all rows."""

from typing import Any, Self

import numpy as np

from mbct.errors import ParameterError
from mbct.model.tree import FitTrace
from mbct.plots.style import AFTER, BEFORE, NEUTRAL, axes_for, tidy


class FitTraceDisplay:
    """Splits one after another (preset "paper"), or the loss of each size of tree tried (preset "default").

    Parameters
    ----------
    trace : FitTrace
        The fit's own record, ``trace_`` of the calibrator.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on, after :meth:`plot`.
    """

    def __init__(self, trace: FitTrace):
        self.trace = trace

    @classmethod
    def from_estimator(cls, calibrator: Any, *, ax: Any = None) -> Self:
        """Draw the trace of a fit.

        Parameters
        ----------
        calibrator : MBCTCalibrator
            Fitted.
        ax : Axes or None, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        FitTraceDisplay
            With the figure as ``figure_``.
        """
        trace = getattr(calibrator, "trace_", None)
        if not isinstance(trace, FitTrace):
            raise ParameterError(f"a fitted MBCTCalibrator is needed, got {type(calibrator).__name__}: it has no trace")
        return cls(trace).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on ``ax``; None makes a new figure."""
        ax = axes_for(ax, 6.8, 5.0 if self.trace.splits else 4.0)
        if self.trace.splits:
            self._draw_splits(ax)
        else:
            self._draw_rounds(ax)
        ax.set_ylabel(f"loss ({self.trace.loss})")
        tidy(ax, grid="y")
        ax.legend(frameon=False, fontsize=9, loc="best" if self.trace.splits else "center right")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_splits(self, ax: Any) -> None:
        splits = self.trace.splits
        at = np.arange(1, len(splits) + 1)
        ax.plot(at, [s.ensemble_loss for s in splits], color=BEFORE, linewidth=2, drawstyle="steps-mid", zorder=3)
        ax.scatter(
            at, [s.ensemble_loss for s in splits], s=14, color=BEFORE, zorder=4, label="all rows, after the split"
        )
        below = ax.inset_axes([0.0, -0.62, 1.0, 0.5])
        fall = [1.0 - s.node_loss_after / s.node_loss_before if s.node_loss_before > 0 else 0.0 for s in splits]
        below.bar(at, fall, color=AFTER, width=0.7)
        below.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}" if value == 0 else f"−{value:.2%}")
        starts = [i for i in range(1, len(splits)) if splits[i].tree != splits[i - 1].tree]
        for each in (ax, below):
            each.set_xlim(0.4, len(splits) + 0.6)
            for i in starts:
                each.axvline(i + 0.5, color="#D1D5DB", linewidth=1, zorder=0)
        tidy(below, grid="y")
        below.set_ylabel("split node's loss")
        below.set_xlabel("split" + (" (a line where the next tree begins)" if starts else ""))
        ax.tick_params(labelbottom=False)

    def _draw_rounds(self, ax: Any) -> None:
        rounds = self.trace.rounds
        at = np.arange(len(rounds))
        before, after = [r.loss_before for r in rounds], [r.loss_after for r in rounds]
        ax.vlines(at, after, before, color="#9CA3AF", linewidth=1.6)
        ax.scatter(at, before, s=40, marker="D", color=BEFORE, zorder=3, label="before")
        ax.scatter(
            at,
            after,
            s=44,
            edgecolors=AFTER,
            facecolors=[AFTER if r.kept else "white" for r in rounds],
            zorder=3,
            label="after (filled: the best so far)",
        )
        for x, was, now in zip(at, before, after, strict=True):
            change = f"{(now - was) / was:+.2%}" if was > 0 else ""
            ax.annotate(change, (x, now), (8, 0), textcoords="offset points", va="center", fontsize=9, color=NEUTRAL)
        ax.set_xticks(at, [f"attempt {i + 1}" for i in range(len(rounds))])
        ax.set_xlim(-0.6, len(rounds) - 0.2)
        ax.margins(y=0.15)
