"""Calibration metrics and scores: ``metric(y_true, y_prob, *, sample_weight=None, …)``.

Every metric takes numpy, pandas and polars columns and returns a float that also knows its interval
(``confidence=0.95``) and, where chance has a known law, its p-value. Names are loaded on first use.
"""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "auc": "scores",
    "bfgpce": "binned",
    "brier": "scores",
    "cal_n": "fields",
    "debiased_ece": "binned",
    "ecce": "unbinned",
    "ece": "binned",
    "ece_sweep": "binned",
    "evaluate": "evaluation",
    "field_ece": "fields",
    "field_rce": "fields",
    "grouped_auc": "scores",
    "log_loss": "scores",
    "mce": "binned",
    "multi_field": "fields",
    "multicalibration_error": "multicalibration",
    "mvce": "multi_view",
    "normalised_entropy": "scores",
    "pce": "binned",
    "pcoc": "fields",
    "pud": "binned",
    "smooth_ece": "unbinned",
    "tce": "unbinned",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(f"mbct.evaluation.metrics.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'mbct.evaluation.metrics' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
