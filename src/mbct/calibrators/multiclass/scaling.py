"""Structured matrix scaling: one temperature for all classes, and penalised departures from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from mbct.calibrators.multiclass.logits import LinearLogits, fit_logits
from mbct.calibrators.multiclass.scores import ClassRows, ManyScores, log_scores
from mbct.errors import ParameterError
from mbct.model.class_scaling import ClassScaling
from mbct.model.file_check import fault, number
from mbct.training.joint import softmax
from mbct.validation import FloatArray, at_least

Structure = Literal["temperature", "vector", "matrix"]

_LOG_RANGE = 16.0  # Inverse temperatures lie between e⁻¹⁶ and e¹⁶


@dataclass(frozen=True)
class TemperedScores:
    """ln of softmax(ln p · inverse_temperature), mixed with the uniform distribution by the share ``uniform``."""

    inverse_temperature: float
    uniform: float

    def __call__(self, probabilities: FloatArray) -> FloatArray:
        """Logarithms of the tempered probabilities."""
        tempered = softmax(self.inverse_temperature * log_scores(probabilities))
        mixed = (1.0 - self.uniform) * tempered + self.uniform / probabilities.shape[1]
        return np.asarray(np.log(mixed), dtype=np.float64)

    def to_dict(self) -> dict[str, float]:
        """Plain JSON values; floats keep every bit."""
        return {"inverse_temperature": self.inverse_temperature, "uniform": self.uniform}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """Undo :meth:`to_dict`; a state without a temperature has none, an error where no logarithm would be finite."""
        most = float(np.exp(_LOG_RANGE))
        inverse = number(state.get("inverse_temperature", 1.0), "state.inverse_temperature", 0.0, most)
        uniform = number(state.get("uniform", 0.0), "state.uniform", 0.0, 1.0)
        if inverse > 1.0 and uniform == 0.0:
            raise fault("state.uniform", uniform, "a share above 0 where the inverse temperature is above 1")
        return cls(inverse, uniform)


def fit_temperature(probabilities: FloatArray, code: npt.NDArray[np.intp], weight: FloatArray) -> TemperedScores:
    """Maximum likelihood in the inverse temperature, where the loss is convex; mixed by the weight of one row.

    The mixture keeps probabilities from 0 where the rows are separable.
    """
    x, total = log_scores(probabilities), float(np.sum(weight))
    given = np.sum(weight * x[np.arange(len(x)), code])

    def slope(log_inverse: float) -> float:
        return float(np.sum(weight * np.sum(x * softmax(np.exp(log_inverse) * x), axis=1)) - given)

    low, high = slope(-_LOG_RANGE), slope(_LOG_RANGE)
    log_inverse = (
        -_LOG_RANGE if low >= 0 else _LOG_RANGE if high <= 0 else brentq(slope, -_LOG_RANGE, _LOG_RANGE, xtol=1e-12)
    )
    return TemperedScores(float(np.exp(log_inverse)), 1.0 / (total + 1.0))


def class_scaling(calibrator: Any) -> ClassScaling:
    """What an export needs of a fitted ``matrix-scaling`` or ``dirichlet`` calibrator of many classes."""
    if not isinstance(getattr(calibrator, "map_", None), LinearLogits) or isinstance(calibrator.score_column_, str):
        raise ParameterError(
            f"of many classes matrix-scaling and dirichlet are exported, not a model of method {calibrator.method!r}"
        )
    classes = tuple(map(str, calibrator.classes_.tolist()))
    tempered, logits = calibrator.tempered_, calibrator.map_
    return ClassScaling(
        tuple(calibrator.score_column_),
        classes,
        **tempered.to_dict(),
        weights=logits.weights,
        intercept=logits.intercept,
    )


class LogitScaling(ManyScores):
    """Base of methods whose fitted state is a linear map of tempered scores."""

    tempered_: TemperedScores
    map_: LinearLogits

    def _calibrate_classes(self, rows: ClassRows) -> FloatArray:
        return self.map_(self.tempered_(rows.probabilities))

    def _state(self) -> dict[str, Any]:
        return {**self.tempered_.to_dict(), **self.map_.to_dict(), "classes": self.classes_.tolist()}

    def _restore(self, state: dict[str, Any]) -> None:
        self.classes_ = self._restored_classes(state)
        self.tempered_ = TemperedScores.from_dict(state)
        self.map_ = LinearLogits.from_dict(state, len(self.classes_))


class MatrixScalingCalibrator(LogitScaling):
    """Structured matrix scaling, softmax(W·x + b), x the tempered log-scores (Berta, Holzmüller, Jordan and Bach 2025).

    One temperature is fitted freely; then W departs from the identity and b from zero under squared penalties that fade
    with the number of rows n: K/n on the diagonal and on b, K(K − 1)/n on the rest of W, times ``penalty``.

    Parameters
    ----------
    score_column, classes : as in :class:`~mbct.calibrators.multiclass.dirichlet.DirichletCalibrator`
        Columns of the scores, and the labels in their order.
    structure : {"matrix", "vector", "temperature"}, default="matrix"
        "vector" holds W diagonal (SVS), "temperature" fits the temperature alone.
    penalty : float, default=1.0
        Factor of the penalties.

    Attributes
    ----------
    tempered_ : TemperedScores
        The ``inverse_temperature`` and the share ``uniform`` of the uniform distribution.
    map_, classes_ : LinearLogits, ndarray of shape (K,)
        ``weights`` W of shape (K, K) and ``intercept`` b of shape (K,); the classes in the order of ``predict_proba``.
    """

    method = "matrix-scaling"

    def __init__(
        self,
        score_column: str | int | Sequence[str | int] | None = None,
        *,
        structure: Structure = "matrix",
        penalty: float = 1.0,
        classes: Sequence[Any] | None = None,
    ):
        self.score_column = score_column
        self.structure = structure
        self.penalty = penalty
        self.classes = classes

    def _fit_classes(self, rows: ClassRows, code: npt.NDArray[np.intp], weight: FloatArray) -> None:
        at_least(0, penalty=self.penalty)
        if self.structure not in ("temperature", "vector", "matrix"):
            raise ParameterError(f"structure={self.structure!r} must be 'matrix', 'vector' or 'temperature'")
        n_classes = rows.probabilities.shape[1]
        self.tempered_ = fit_temperature(rows.probabilities, code, weight)
        if self.structure == "temperature":
            self.map_ = LinearLogits(np.eye(n_classes), np.zeros(n_classes))
            return
        strength = 2.0 * self.penalty * n_classes / float(np.sum(weight))
        off_diagonal = strength * (n_classes - 1) if self.structure == "matrix" else np.inf
        pull = np.full((n_classes, n_classes + 1), off_diagonal)
        pull[:, -1] = strength
        np.fill_diagonal(pull, strength)
        self.map_ = fit_logits(self.tempered_(rows.probabilities), code, weight, pull)
