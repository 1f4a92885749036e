"""Calibration methods behind one interface.

Classes are loaded on first use, so that listing the methods imports none of them.
"""

from typing import TYPE_CHECKING

from mbct.calibrators.registry import METHODS
from mbct.lazy import lazy_names

if TYPE_CHECKING:
    from mbct.calibrators.base import Calibrator as Calibrator
    from mbct.calibrators.classifier import CalibratedClassifier as CalibratedClassifier
    from mbct.calibrators.lightgbm import LightGBMCalibrator as LightGBMCalibrator
    from mbct.calibrators.mbct import MBCTCalibrator as MBCTCalibrator
    from mbct.calibrators.multiclass.dirichlet import DirichletCalibrator as DirichletCalibrator
    from mbct.calibrators.multiclass.mbct import MulticlassCalibrator as MulticlassCalibrator
    from mbct.calibrators.multiclass.scaling import MatrixScalingCalibrator as MatrixScalingCalibrator
    from mbct.calibrators.online import OnlineCalibrator as OnlineCalibrator
    from mbct.calibrators.prevalence import estimate_prevalence as estimate_prevalence
    from mbct.calibrators.prevalence import shift_prevalence as shift_prevalence
    from mbct.calibrators.registry import available as available
    from mbct.calibrators.registry import calibrator_class as calibrator_class
    from mbct.calibrators.registry import make as make
    from mbct.calibrators.score_only.binning import BBQCalibrator as BBQCalibrator
    from mbct.calibrators.score_only.binning import HistogramCalibrator as HistogramCalibrator
    from mbct.calibrators.score_only.binning import ScalingBinningCalibrator as ScalingBinningCalibrator
    from mbct.calibrators.score_only.ensemble import EnsembleCalibrator as EnsembleCalibrator
    from mbct.calibrators.score_only.isotonic import CentredIsotonicCalibrator as CentredIsotonicCalibrator
    from mbct.calibrators.score_only.isotonic import IsotonicCalibrator as IsotonicCalibrator
    from mbct.calibrators.score_only.logistic import BetaCalibrator as BetaCalibrator
    from mbct.calibrators.score_only.logistic import PlattCalibrator as PlattCalibrator
    from mbct.calibrators.score_only.logistic import TemperatureCalibrator as TemperatureCalibrator
    from mbct.calibrators.score_only.score_map import IdentityCalibrator as IdentityCalibrator
    from mbct.calibrators.score_only.spline import AffineCalibrator as AffineCalibrator
    from mbct.calibrators.score_only.spline import QuadraticCalibrator as QuadraticCalibrator
    from mbct.calibrators.score_only.spline import SplineCalibrator as SplineCalibrator
    from mbct.calibrators.score_only.venn_abers import VennAbersCalibrator as VennAbersCalibrator
    from mbct.calibrators.segment import SegmentCalibrator as SegmentCalibrator

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    *METHODS.values(),
    ("mbct.calibrators.base", "Calibrator"),
    ("mbct.calibrators.classifier", "CalibratedClassifier"),
    ("mbct.calibrators.online", "OnlineCalibrator"),
    ("mbct.calibrators.prevalence", "estimate_prevalence shift_prevalence"),
    ("mbct.calibrators.registry", "available calibrator_class make"),
)
