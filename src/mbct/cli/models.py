"""Models that commands are given: read from a file, or set up by ``--set``."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mbct.errors import ParameterError

if TYPE_CHECKING:
    from mbct.calibrators.base import Calibrator


def load_calibrator(path: str) -> "Calibrator":
    """The calibrator of a model file; one of many classes is for Python alone."""
    from mbct.calibrators.persistence import load_model

    calibrator = load_model(path)
    if not isinstance(calibrator.score_, str):
        raise ParameterError(
            f"{path} calibrates {len(calibrator.score_)} classes at once, commands one probability: load it in Python "
            "with mbct.load_model"
        )
    return calibrator


def check_settings(method: str, settings: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise where ``--set`` names what the method does not have."""
    names = sorted(known)
    if foreign := sorted(set(settings) - set(names)):
        listed = ", ".join(names) or "none"
        raise ParameterError(f"method {method!r} has no parameter {foreign[0]!r}; it has {listed}")
