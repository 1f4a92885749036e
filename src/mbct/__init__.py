"""Feature-aware calibration of predicted probabilities.

The public names are loaded on first use, so that ``import mbct`` costs nothing that is not needed.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "CellStore": "mbct.store.cell_store",
    "CalibratedClassifier": "mbct.calibrators.classifier",
    "FeatureRanking": "mbct.evaluation.feature_ranking",
    "MulticlassCalibrator": "mbct.calibrators.multiclass.mbct",
    "rank_features": "mbct.evaluation.feature_ranking",
    "Comparison": "mbct.evaluation.compare",
    "MBCTCalibrator": "mbct.calibrators.mbct",
    "compare": "mbct.evaluation.compare",
    "load_model": "mbct.calibrators.persistence",
    "refresh": "mbct.store.refresh",
}

__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'mbct' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
