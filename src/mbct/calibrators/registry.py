"""One name for every method: a dictionary and three functions."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mbct.errors import ParameterError

if TYPE_CHECKING:
    from mbct.calibrators.base import Calibrator

METHODS: dict[str, tuple[str, str]] = {
    "bbq": ("mbct.calibrators.bbq", "BBQCalibrator"),
    "beta": ("mbct.calibrators.beta", "BetaCalibrator"),
    "centred-isotonic": ("mbct.calibrators.isotonic", "CentredIsotonicCalibrator"),
    "dirichlet": ("mbct.calibrators.dirichlet", "DirichletCalibrator"),
    "ensemble": ("mbct.calibrators.ensemble", "EnsembleCalibrator"),
    "histogram": ("mbct.calibrators.histogram", "HistogramCalibrator"),
    "identity": ("mbct.calibrators.identity", "IdentityCalibrator"),
    "isotonic": ("mbct.calibrators.isotonic", "IsotonicCalibrator"),
    "lightgbm": ("mbct.calibrators.boosted", "LightGBMCalibrator"),
    "mbct": ("mbct.calibrators.mbct", "MBCTCalibrator"),
    "mbct-multiclass": ("mbct.calibrators.multiclass", "MulticlassCalibrator"),
    "platt": ("mbct.calibrators.platt", "PlattCalibrator"),
    "scaling-binning": ("mbct.calibrators.scaling_binning", "ScalingBinningCalibrator"),
    "segment": ("mbct.calibrators.segment", "SegmentCalibrator"),
    "temperature": ("mbct.calibrators.temperature", "TemperatureCalibrator"),
    "venn-abers": ("mbct.calibrators.venn_abers", "VennAbersCalibrator"),
}


def available() -> list[str]:
    """Names of all calibration methods."""
    return sorted(METHODS)


def calibrator_class(name: str) -> "type[Calibrator]":
    """The class behind a name, imported on first use."""
    if name not in METHODS:
        raise ParameterError(f"unknown method {name!r}; available are {', '.join(available())}")
    module, attribute = METHODS[name]
    loaded: type[Calibrator] = getattr(import_module(module), attribute)
    return loaded


def make(name: str, **parameters: Any) -> "Calibrator":
    """An unfitted calibrator by name, for example ``make("platt", score="pctr")``."""
    return calibrator_class(name)(**parameters)
