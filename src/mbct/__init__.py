"""Feature-aware calibration of predicted probabilities.

The public names are loaded on first use, so that ``import mbct`` costs nothing that is not needed.
"""

from typing import TYPE_CHECKING

from mbct.lazy import lazy_names

if TYPE_CHECKING:  # what type checkers and editors see of the names below
    from mbct import calibrators as calibrators
    from mbct import data as data
    from mbct import errors as errors
    from mbct import metrics as metrics
    from mbct import mlflow as mlflow
    from mbct import plots as plots
    from mbct.calibrators.classifier import CalibratedClassifier as CalibratedClassifier
    from mbct.calibrators.mbct import MBCTCalibrator as MBCTCalibrator
    from mbct.calibrators.multiclass.mbct import MulticlassCalibrator as MulticlassCalibrator
    from mbct.calibrators.online import OnlineCalibrator as OnlineCalibrator
    from mbct.calibrators.persistence import load_model as load_model
    from mbct.errors import MBCTWarning as MBCTWarning
    from mbct.evaluation.certify import certify as certify
    from mbct.evaluation.compare import compare as compare
    from mbct.evaluation.comparison import Comparison as Comparison
    from mbct.evaluation.feature_ranking import FeatureRanking as FeatureRanking
    from mbct.evaluation.feature_ranking import rank_features as rank_features
    from mbct.evaluation.monitor import CalibrationMonitor as CalibrationMonitor
    from mbct.model.file import load_ensemble as load_ensemble
    from mbct.store.cell_store import CellStore as CellStore
    from mbct.store.refresh import refresh as refresh

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    ("mbct.calibrators", "calibrators"),
    ("mbct.calibrators.classifier", "CalibratedClassifier"),
    ("mbct.calibrators.mbct", "MBCTCalibrator"),
    ("mbct.calibrators.multiclass.mbct", "MulticlassCalibrator"),
    ("mbct.calibrators.online", "OnlineCalibrator"),
    ("mbct.calibrators.persistence", "load_model"),
    ("mbct.data", "data"),
    ("mbct.errors", "MBCTWarning errors"),
    ("mbct.evaluation.certify", "certify"),
    ("mbct.evaluation.compare", "compare"),
    ("mbct.evaluation.comparison", "Comparison"),
    ("mbct.evaluation.feature_ranking", "FeatureRanking rank_features"),
    ("mbct.evaluation.monitor", "CalibrationMonitor"),
    ("mbct.metrics", "metrics"),
    ("mbct.mlflow", "mlflow"),
    ("mbct.model.file", "load_ensemble"),
    ("mbct.plots", "plots"),
    ("mbct.store.cell_store", "CellStore"),
    ("mbct.store.refresh", "refresh"),
)
