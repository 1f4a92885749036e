"""A reliability diagram for each of the largest segments of one column."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from mbct.errors import ParameterError
from mbct.plots.estimator import judge
from mbct.plots.reliability import ReliabilityDisplay
from mbct.plots.results.reliability import ReliabilityCurve, compute_panels
from mbct.plots.style import AFTER, BEFORE, PALETTE, pyplot

_COLUMNS = 3


class SegmentReliabilityDisplay:
    """Small diagrams side by side, one a segment, largest first; each may hold several predictions.

    ``curves`` maps the name of a prediction to its computed curves, one a panel. After :meth:`plot`, ``axes_`` and
    ``figure_`` hold what was drawn on.
    """

    def __init__(self, curves: Mapping[str, Sequence[ReliabilityCurve]], *, colours: Sequence[str] = PALETTE):
        self.curves = {name: tuple(panels) for name, panels in curves.items()}
        self.colours = tuple(colours)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        *,
        by: Any,
        n_bins: int = 8,
        max_panels: int = 6,
        confidence: float = 0.95,
        sample_weight: Any = None,
        axes: Any = None,
    ) -> Self:
        """Compute and draw; ``by`` is the column of segments, ``y_prob`` a column or a mapping of names to columns."""
        named = y_prob if isinstance(y_prob, Mapping) else {"": y_prob}
        curves = {
            str(name): compute_panels(
                y_true,
                column,
                by,
                n_bins=n_bins,
                confidence=confidence,
                sample_weight=sample_weight,
                max_panels=max_panels,
            )
            for name, column in named.items()
        }
        return cls(curves).plot(axes)

    @classmethod
    def from_estimator(
        cls,
        calibrator: Any,
        X: Any,
        y: Any,
        *,
        by: str,
        n_bins: int = 8,
        max_panels: int = 6,
        confidence: float = 0.95,
        sample_weight: Any = None,
        y_prob: Any = None,
        axes: Any = None,
    ) -> Self:
        """Before and after a fitted calibrator; ``by`` names a column of ``X``."""
        rows = judge(calibrator, X, y, sample_weight=sample_weight, y_prob=y_prob)
        curves = {
            name: compute_panels(
                rows.y_true,
                column,
                rows.fields(by),
                n_bins=n_bins,
                confidence=confidence,
                sample_weight=rows.weight,
                max_panels=max_panels,
            )
            for name, column in (("before", rows.before), ("after", rows.after))
        }
        return cls(curves, colours=(BEFORE, AFTER)).plot(axes)

    def plot(self, axes: Any = None) -> Self:
        """Draw a panel a segment, on ``axes`` or on a new figure."""
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
