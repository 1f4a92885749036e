"""Displays in the manner of scikit-learn: ``from_predictions``, ``from_estimator`` and ``plot(ax=…)``.

They draw computed results only (``mbct.evaluation.diagnostics``) and need matplotlib (extra ``plots``) no sooner than
``plot``.
"""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "BinsDisplay": "bins",
    "FieldBiasDisplay": "field_bias",
    "FitTraceDisplay": "fit_trace",
    "PUDDisplay": "pud",
    "ReliabilityDisplay": "reliability",
    "SegmentReliabilityDisplay": "reliability",
    "TreeDisplay": "tree",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(f"mbct.plots.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'mbct.plots' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
