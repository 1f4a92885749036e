"""PCOC of the values of each field, with intervals: where predictions are too low and too high."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from mbct.errors import ParameterError
from mbct.evaluation.diagnostics.field_bias import FieldBias, SegmentBias, compute_field_bias
from mbct.evaluation.diagnostics.subgroups import ratio_limits
from mbct.plots.display import PredictionsDisplay, by_name, colours_of
from mbct.plots.style import MARKERS, axes_for, ratio_axis, tidy

_LINE_HEIGHT = 0.3


class FieldBiasDisplay(PredictionsDisplay):
    """Predicted over observed positives of each segment of one field, sorted; 1 is right.

    A filled mark is a bias beyond chance after the correction for the number of segments.

    Parameters
    ----------
    fields : sequence of FieldBias
        Computed result of one field for each prediction.
    names, colours : sequence of str, default=("",), and sequence of str or None, default=None
        Name and colour of each prediction; colours are used in turn.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on, after :meth:`plot`.
    """

    _by_columns = True

    def __init__(
        self, fields: Sequence[FieldBias], *, names: Sequence[str] = ("",), colours: Sequence[str] | None = None
    ):
        if len(fields) != len(names):
            raise ParameterError(f"{len(fields)} results need as many names, got {len(names)}")
        self.fields = tuple(fields)
        self.names = tuple(names)
        self.colours = colours_of(self.names, colours)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        *,
        by: Any,
        max_values: int = 20,
        confidence: float = 0.95,
        correction: str = "holm",
        sample_weight: Any = None,
        time: Any = None,
        groups: Any = None,
        block: str | int = "day",
        ax: Any = None,
    ) -> Self:
        """Compute and draw the biases of one prediction or several.

        Parameters
        ----------
        y_true, y_prob, sample_weight, time, groups, block, ax : as in \
            :meth:`mbct.plots.ReliabilityDisplay.from_predictions`
            Labels, predictions (by name, if there are several), weights, which rows belong together, and where to draw.
        by : frame, mapping or array
            Columns of segments; of several, that of the first prediction's largest Field-ECE is drawn.
        max_values : int, default=20
            Values of a column that are segments of their own, largest first; the rest share one.
        confidence : float, default=0.95
            Level of the intervals.
        correction : "holm" or "benjamini-hochberg", default="holm"
            Correction of the p-values for the number of segments.
        """
        options: Any = {"max_values": max_values, "confidence": confidence, "correction": correction}
        options |= {"sample_weight": sample_weight, "time": time, "groups": groups, "block": block}
        named = by_name(y_prob)
        found = [compute_field_bias(y_true, p, by, **options) for p in named.values()]
        field = found[0][0].field
        same = [next(each for each in fields if each.field == field) for fields in found]
        return cls(same, names=tuple(map(str, named))).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on ``ax`` a line a segment, in the order of the first prediction's PCOC; None makes a new figure."""
        order = [segment.segment for segment in self.fields[0].segments]
        ax = axes_for(ax, 6.4, 1.3 + _LINE_HEIGHT * len(order))
        every = [s for field in self.fields for s in field.segments]
        ratio_axis(ax, "x", *ratio_limits([end for s in every for end in (s.lower, s.ratio, s.upper)], widest=10.0))
        for i, (field, name) in enumerate(zip(self.fields, self.names, strict=True)):
            of_segment = {segment.segment: segment for segment in field.segments}
            shift = (i - (len(self.fields) - 1) / 2) * 0.28
            self._draw(ax, [of_segment[segment] for segment in order], shift, i, name)
        ax.set_yticks(range(len(order)), order)
        ax.set_ylim(len(order) - 0.4, -0.6)
        ax.set_xlabel("predicted / observed positives (PCOC)   ← too low · too high →")
        errors = " → ".join(f"{field.error:.4g}" for field in self.fields)
        ax.set_title(f"{self.fields[0].field}: Field-ECE {errors}", loc="left", fontsize=10)
        tidy(ax, grid="x")
        if any(self.names):
            ax.legend(frameon=False, loc="lower right", bbox_to_anchor=(1.0, 0.99), ncols=2, fontsize=9)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw(self, ax: Any, segments: list[SegmentBias], shift: float, number: int, name: str) -> None:
        colour = self.colours[number]
        low, high = ax.get_xlim()
        at = np.arange(len(segments)) + shift
        ends = np.clip([(s.lower, s.upper) for s in segments], low, high)
        ax.hlines(at, ends[:, 0], ends[:, 1], color=colour, linewidth=1.4, alpha=0.75)
        inside = [i for i, s in enumerate(segments) if low <= s.ratio <= high]
        ax.scatter(
            [segments[i].ratio for i in inside],
            at[inside],
            marker=MARKERS[number % len(MARKERS)],
            s=34,
            edgecolors=colour,
            facecolors=[colour if segments[i].significant else "white" for i in inside],
            linewidths=1.4,
            label=name or None,
            zorder=3,
        )
