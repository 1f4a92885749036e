"""One name for every method: a dictionary and three functions."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mbct.errors import ParameterError

if TYPE_CHECKING:
    from mbct.calibrators.base import Calibrator

_METHODS: dict[str, tuple[str, str]] = {
    "platt": ("mbct.calibrators.platt", "PlattCalibrator"),
    "mbct": ("mbct.calibrators.mbct", "MBCTCalibrator"),
}


def available() -> list[str]:
    """Names of all calibration methods."""
    return sorted(_METHODS)


def calibrator_class(name: str) -> "type[Calibrator]":
    """The class behind a name, imported on first use."""
    if name not in _METHODS:
        raise ParameterError(f"unknown method {name!r}; available are {', '.join(available())}")
    module, attribute = _METHODS[name]
    loaded: type[Calibrator] = getattr(import_module(module), attribute)
    return loaded


def make(name: str, **parameters: Any) -> "Calibrator":
    """An unfitted calibrator by name, for example ``make("platt", score="pctr")``."""
    return calibrator_class(name)(**parameters)
