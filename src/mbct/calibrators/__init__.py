"""Calibration methods behind one interface.

Classes are loaded on first use, so that listing the methods imports none of them.
"""

from importlib import import_module
from typing import Any

from mbct.calibrators.registry import METHODS, available, calibrator_class, make

_CLASSES = {
    **{attribute: module for module, attribute in METHODS.values()},
    "CalibratedClassifier": "mbct.calibrators.classifier",
}

__all__ = ["available", "calibrator_class", "make", *sorted(_CLASSES)]


def __getattr__(name: str) -> Any:
    if name in _CLASSES:
        return getattr(import_module(_CLASSES[name]), name)
    raise AttributeError(f"module 'mbct.calibrators' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_CLASSES])
