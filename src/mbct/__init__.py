"""Feature-aware calibration of predicted probabilities.

The public names are loaded on first use, so that ``import mbct`` costs nothing that is not needed.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "CellStore": "mbct.store.cell_store",
    "CalibratedClassifier": "mbct.calibrators.classifier",
    "FeatureAdvice": "mbct.calibrators.advice",
    "MulticlassCalibrator": "mbct.calibrators.multiclass",
    "advise_features": "mbct.calibrators.advice",
    "Comparison": "mbct.comparison.table",
    "MBCTCalibrator": "mbct.calibrators.mbct",
    "compare": "mbct.comparison.compare",
    "load_model": "mbct.calibrators.persistence",
    "refresh": "mbct.calibrators.refresh",
}

__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'mbct' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
