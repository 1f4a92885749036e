"""One name for every method: a dictionary and three functions."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mbct.errors import ParameterError

if TYPE_CHECKING:
    from mbct.calibrators.base import Calibrator

METHODS: dict[str, tuple[str, str]] = {
    "affine": ("mbct.calibrators.score_only.spline", "AffineCalibrator"),
    "bbq": ("mbct.calibrators.score_only.binning", "BBQCalibrator"),
    "beta": ("mbct.calibrators.score_only.logistic", "BetaCalibrator"),
    "centred-isotonic": ("mbct.calibrators.score_only.isotonic", "CentredIsotonicCalibrator"),
    "dirichlet": ("mbct.calibrators.multiclass.dirichlet", "DirichletCalibrator"),
    "ensemble": ("mbct.calibrators.score_only.ensemble", "EnsembleCalibrator"),
    "histogram": ("mbct.calibrators.score_only.binning", "HistogramCalibrator"),
    "identity": ("mbct.calibrators.score_only.score_map", "IdentityCalibrator"),
    "isotonic": ("mbct.calibrators.score_only.isotonic", "IsotonicCalibrator"),
    "lightgbm": ("mbct.calibrators.lightgbm", "LightGBMCalibrator"),
    "matrix-scaling": ("mbct.calibrators.multiclass.scaling", "MatrixScalingCalibrator"),
    "mbct": ("mbct.calibrators.mbct", "MBCTCalibrator"),
    "mbct-multiclass": ("mbct.calibrators.multiclass.mbct", "MulticlassCalibrator"),
    "platt": ("mbct.calibrators.score_only.logistic", "PlattCalibrator"),
    "quadratic": ("mbct.calibrators.score_only.spline", "QuadraticCalibrator"),
    "scaling-binning": ("mbct.calibrators.score_only.binning", "ScalingBinningCalibrator"),
    "segment": ("mbct.calibrators.segment", "SegmentCalibrator"),
    "spline": ("mbct.calibrators.score_only.spline", "SplineCalibrator"),
    "temperature": ("mbct.calibrators.score_only.logistic", "TemperatureCalibrator"),
    "venn-abers": ("mbct.calibrators.score_only.venn_abers", "VennAbersCalibrator"),
}


def available() -> list[str]:
    """Names of all calibration methods, sorted; each is good for :func:`make`."""
    return sorted(METHODS)


def calibrator_class(name: str) -> "type[Calibrator]":
    """The class behind a method's name, imported on first use.

    Parameters
    ----------
    name : str
        One of :func:`available`.

    Returns
    -------
    type
        A class derived from :class:`~mbct.calibrators.base.Calibrator`.
    """
    if name not in METHODS:
        raise ParameterError(f"unknown method {name!r}; available are {', '.join(available())}")
    module, attribute = METHODS[name]
    loaded: type[Calibrator] = getattr(import_module(module), attribute)
    return loaded


def make(name: str, **parameters: Any) -> "Calibrator":
    """An unfitted calibrator by name, as in ``make("platt", score_column="pctr")``.

    Parameters
    ----------
    name : str
        One of :func:`available`.
    **parameters : Any
        Parameters of its class.

    Returns
    -------
    Calibrator
        Not fitted.
    """
    return calibrator_class(name)(**parameters)
