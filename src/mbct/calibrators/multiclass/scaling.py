"""Structured matrix scaling: one temperature for all classes, and penalised departures from it."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from mbct.calibrators.multiclass.logits import fit_logits, pull_of, summed_log_loss
from mbct.calibrators.multiclass.scores import ClassRows, ManyScores
from mbct.errors import ParameterError
from mbct.model.class_model import LOG_RANGE, LOWEST_FLOOR, ClassModel, ClassScaling
from mbct.stats.logodds import EPSILON, log_scores, softmax
from mbct.validation import FloatArray, at_least

Structure = Literal["temperature", "vector", "matrix"]
FLOORS = (EPSILON, 1e-19, 1e-38, 1e-76, 1e-150, LOWEST_FLOOR)
"""Where scores of nearly 0 may be held."""


def fit_temperature(probabilities: FloatArray, code: npt.NDArray[np.intp], weight: FloatArray) -> ClassScaling:
    """Maximum likelihood in the inverse temperature, where the loss is convex; mixed by the weight of one row.

    The mixture keeps probabilities from 0 where the rows are separable. Scores below 1e-9 are held there or lower,
    where the likelihood is largest: naive Bayes means something by 1e-40, a forest's 0 votes do not mean 0.
    """
    lowest = float(probabilities.min())
    floors = [floor for floor in FLOORS if floor == EPSILON or lowest < 10.0 * floor]
    fitted = [(floor, *_inverse_temperature(log_scores(probabilities, floor), code, weight)) for floor in floors]
    floor, inverse, _ = min(fitted, key=lambda found: found[2])
    uniform = 1.0 / (float(np.sum(weight)) + 1.0)
    return ClassScaling.identity(probabilities.shape[1], inverse_temperature=inverse, uniform=uniform, floor=floor)


def _inverse_temperature(x: FloatArray, code: npt.NDArray[np.intp], weight: FloatArray) -> tuple[float, float]:
    """The a of the least log loss of softmax(a·x), and that loss."""
    given = np.sum(weight * x[np.arange(len(x)), code])

    def slope(log_inverse: float) -> float:
        return float(np.sum(weight * np.sum(x * softmax(np.exp(log_inverse) * x), axis=1)) - given)

    low, high = slope(-LOG_RANGE), slope(LOG_RANGE)
    log_inverse = (
        -LOG_RANGE if low >= 0 else LOG_RANGE if high <= 0 else brentq(slope, -LOG_RANGE, LOG_RANGE, xtol=1e-12)
    )
    inverse = float(np.exp(log_inverse))
    return inverse, summed_log_loss(softmax(inverse * x), code, weight)


class LogitScaling(ManyScores):
    """Base of methods whose fitted state is a linear map of tempered scores."""

    map_: ClassScaling

    def _calibrate_classes(self, rows: ClassRows) -> FloatArray:
        return softmax(self.map_(rows.probabilities))

    def _class_model(self, scores: tuple[str, ...], classes: tuple[str, ...]) -> ClassModel:
        return ClassModel(scores, classes, self.map_)

    def _state(self) -> dict[str, Any]:
        return {**self.map_.to_dict(), "classes": self.classes_.tolist()}

    def _restore(self, state: dict[str, Any]) -> None:
        self.classes_ = self._restored_classes(state)
        self.map_ = ClassScaling.from_dict(state, len(self.classes_))


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
    map_, classes_ : ClassScaling, ndarray of shape (K,)
        ``inverse_temperature``, the share ``uniform`` of the uniform distribution, ``weights`` W of shape (K, K) and
        ``intercept`` b of shape (K,); the classes in the order of ``predict_proba``.
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
        self.map_ = fit_temperature(rows.probabilities, code, weight)
        if self.structure == "temperature":
            return
        strength = 2.0 * self.penalty * n_classes / float(np.sum(weight))
        off_diagonal = strength * (n_classes - 1) if self.structure == "matrix" else np.inf
        pull = pull_of(n_classes, off_diagonal, strength, strength)
        beta = fit_logits(self.map_.tempered(rows.probabilities), code, weight, pull)
        self.map_ = self.map_.with_coefficients(beta)
