"""Scaling of all classes' scores: one temperature, and a linear map of their logarithms under squared penalties.

The map is multinomial logistic regression that is drawn to a start; structured matrix scaling chooses its penalties.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize

from mbct.calibrators.multiclass.scores import ClassRows, ManyScores
from mbct.errors import ParameterError
from mbct.model.class_model import LOG_RANGE, LOWEST_FLOOR, ClassModel, ClassScaling
from mbct.stats.probabilities import EPSILON, log_scores, softmax
from mbct.validation import FloatArray, at_least

Structure = Literal["temperature", "vector", "matrix"]
FLOORS = (EPSILON, 1e-19, 1e-38, 1e-76, 1e-150, LOWEST_FLOOR)
"""Where scores of nearly 0 may be held."""
RIDGE = 1e-9
"""Pull to the start in the mean loss: too small to see, it keeps separable labels from infinity."""
_MATRIX_CLASSES = 16  # Classes up to which the K(K + 1) second derivatives squared are worth a matrix


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


def fit_logits(
    x: FloatArray, code: npt.NDArray[np.intp], weight: FloatArray, pull: FloatArray, begin: FloatArray | None = None
) -> FloatArray:
    """The β = (W, b), of shape (K, K + 1), of least mean log loss + ½ Σ pull·(β − (I, 0))²; infinite pull holds fast.

    ``begin`` is where the search begins; the result does not depend on it.
    """
    n_classes = x.shape[1]
    design = np.column_stack([x, np.ones(len(x))])
    share = weight / np.sum(weight)
    target = np.zeros((len(x), n_classes))
    target[np.arange(len(x)), code] = 1.0
    start = np.column_stack([np.eye(n_classes), np.zeros(n_classes)])
    free, strength = np.isfinite(pull), np.where(np.isfinite(pull), pull, 0.0) + RIDGE

    def loss_and_gradient(flat: FloatArray) -> tuple[float, FloatArray]:
        beta = _filled(start, free, flat)
        z = design @ beta.T
        top = z.max(axis=1)
        log_sum = top + np.log(np.exp(z - top[:, None]).sum(axis=1))
        moved = beta - start
        loss = np.sum(share * (log_sum - z[np.arange(len(z)), code])) + 0.5 * np.sum(strength * moved * moved)
        residual = share[:, None] * (np.exp(z - log_sum[:, None]) - target)
        return float(loss), (residual.T @ design + strength * moved)[free]

    def curvature(flat: FloatArray) -> _Curvature:
        return _Curvature(design, share, softmax(design @ _filled(start, free, flat).T), strength, free)

    first = start if begin is None else begin
    return _filled(start, free, _minimise(loss_and_gradient, curvature, first[free]))


def pull_of(n_classes: int, off_diagonal: float, diagonal: float, intercept: float) -> FloatArray:
    """Pull of each coefficient (W, b): the same for the off-diagonal of W, for its diagonal and for b."""
    pull = np.full((n_classes, n_classes + 1), off_diagonal)
    pull[:, -1] = intercept
    np.fill_diagonal(pull, diagonal)
    return pull


def summed_log_loss(probabilities: FloatArray, code: npt.NDArray[np.intp], weight: FloatArray) -> float:
    """−Σ w·log of each row's probability of its class."""
    given = probabilities[np.arange(len(code)), code]
    return -float(np.sum(weight * np.log(np.maximum(given, np.finfo(np.float64).tiny))))


def _filled(start: FloatArray, free: npt.NDArray[np.bool_], flat: FloatArray) -> FloatArray:
    beta = start.copy()
    beta[free] = flat
    return beta


class _Curvature:
    """Second derivatives of the loss at one point: a matrix for few classes, products with directions for many."""

    def __init__(
        self, design: FloatArray, share: FloatArray, q: FloatArray, pull: FloatArray, free: npt.NDArray[np.bool_]
    ):
        self.design, self.share, self.q, self.pull, self.free = design, share, q, pull, free
        self.matrix = self._as_matrix() if q.shape[1] <= _MATRIX_CLASSES else None

    def __matmul__(self, direction: FloatArray) -> FloatArray:
        if self.matrix is not None:
            return np.asarray(self.matrix @ direction, dtype=np.float64)
        move = _filled(np.zeros(self.pull.shape), self.free, direction)
        along = self.design @ move.T
        curved = self.share[:, None] * self.q * (along - np.sum(self.q * along, axis=1, keepdims=True))
        return np.asarray((curved.T @ self.design + self.pull * move)[self.free], dtype=np.float64)

    def _as_matrix(self) -> FloatArray:
        """Σ share·q_a(δ_ab − q_b)·xxᵀ in the block of classes a and b, and the pull on the diagonal."""
        n_classes, width = self.pull.shape
        blocks = np.empty((n_classes, width, n_classes, width))
        for a in range(n_classes):
            for b in range(a + 1):
                along = self.share * self.q[:, a] * (float(a == b) - self.q[:, b])
                blocks[a, :, b, :] = (self.design * along[:, None]).T @ self.design
                blocks[b, :, a, :] = blocks[a, :, b, :].T
        matrix = blocks.reshape(self.pull.size, -1) + np.diag(self.pull.ravel())
        return matrix[np.ix_(self.free.ravel(), self.free.ravel())]


def _minimise(
    loss_and_gradient: Callable[[FloatArray], tuple[float, FloatArray]],
    curvature: Callable[[FloatArray], _Curvature],
    start: FloatArray,
) -> FloatArray:
    """Newton's method in a trust region; the curvature at a point is found once and serves all directions there."""
    last: list[tuple[FloatArray, _Curvature]] = []

    def product(flat: FloatArray, direction: FloatArray) -> FloatArray:
        if not last or not np.array_equal(last[0][0], flat):
            last[:] = [(flat.copy(), curvature(flat))]
        return last[0][1] @ direction

    found = minimize(loss_and_gradient, start, jac=True, hessp=product, method="trust-ncg", options={"gtol": 1e-10})
    return np.asarray(found.x, dtype=np.float64)


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
