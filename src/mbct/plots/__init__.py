"""Displays in the manner of scikit-learn: ``from_predictions``, ``from_estimator`` and ``plot(ax=…)``.

They draw computed results only (``mbct.evaluation.diagnostics``) and need matplotlib (extra ``plots``) no sooner than
``plot``.
"""

from typing import TYPE_CHECKING

from mbct.lazy import lazy_names

if TYPE_CHECKING:
    from mbct.plots.bins import BinsDisplay as BinsDisplay
    from mbct.plots.decision_curve import DecisionCurveDisplay as DecisionCurveDisplay
    from mbct.plots.field_bias import FieldBiasDisplay as FieldBiasDisplay
    from mbct.plots.fit_trace import FitTraceDisplay as FitTraceDisplay
    from mbct.plots.pud import PUDDisplay as PUDDisplay
    from mbct.plots.reliability import ReliabilityDisplay as ReliabilityDisplay
    from mbct.plots.reliability import SegmentReliabilityDisplay as SegmentReliabilityDisplay
    from mbct.plots.tree import TreeDisplay as TreeDisplay

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    ("mbct.plots.bins", "BinsDisplay"),
    ("mbct.plots.decision_curve", "DecisionCurveDisplay"),
    ("mbct.plots.field_bias", "FieldBiasDisplay"),
    ("mbct.plots.fit_trace", "FitTraceDisplay"),
    ("mbct.plots.pud", "PUDDisplay"),
    ("mbct.plots.reliability", "ReliabilityDisplay SegmentReliabilityDisplay"),
    ("mbct.plots.tree", "TreeDisplay"),
)
