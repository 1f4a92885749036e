"""Boosting calibration trees: two presets, one frozen ensemble and the trace of its growth."""

from mbct.boosting.model import CalibrationEnsemble

__all__ = ["CalibrationEnsemble"]
