"""Dirichlet calibration: multinomial logistic regression on the logarithms of all classes' scores."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from mbct.calibrators.multiclass.scores import ClassRows, ManyScores
from mbct.stats.logodds import EPSILON
from mbct.training.joint import softmax
from mbct.validation import FloatArray, at_least

_RIDGE = 1e-9  # Pull of the diagonal to 1 in the mean loss: too small to see, it keeps separable labels from infinity
_MATRIX_CLASSES = 16  # Classes up to which the K(K + 1) second derivatives squared are worth a matrix


@dataclass(frozen=True)
class DirichletMap:
    """softmax(W·ln p + b), one row of W and one entry of b for each class."""

    weights: FloatArray
    intercept: FloatArray

    def __call__(self, probabilities: FloatArray) -> FloatArray:
        """Calibrated probabilities, shape (n, K)."""
        log_p = np.log(np.clip(probabilities, EPSILON, 1.0))
        z = np.tile(self.intercept, (len(log_p), 1))
        # Class by class instead of one product of matrices: a row's result does not depend on its neighbours.
        for k in range(len(self.intercept)):
            z += log_p[:, k : k + 1] * self.weights[:, k]
        return softmax(z)


def fit_dirichlet(
    probabilities: FloatArray, code: npt.NDArray[np.intp], weight: FloatArray, penalty: float
) -> DirichletMap:
    """Minimise the mean log loss + penalty·(mean of squared off-diagonals of W + mean of squared b)."""
    n_classes = probabilities.shape[1]
    log_p = np.log(np.clip(probabilities, EPSILON, 1.0))
    design = np.column_stack([log_p, np.ones(len(log_p))])
    share = weight / np.sum(weight)
    target = np.zeros((len(log_p), n_classes))
    target[np.arange(len(log_p)), code] = 1.0
    start = np.column_stack([np.eye(n_classes), np.zeros(n_classes)])
    pull = np.full(start.shape, 2.0 * penalty / (n_classes * (n_classes - 1)) + _RIDGE)
    pull[:, -1] = 2.0 * penalty / n_classes + _RIDGE
    np.fill_diagonal(pull, _RIDGE)

    def loss_and_gradient(flat: FloatArray) -> tuple[float, FloatArray]:
        beta = flat.reshape(start.shape)
        z = design @ beta.T
        top = z.max(axis=1)
        log_sum = top + np.log(np.exp(z - top[:, None]).sum(axis=1))
        moved = beta - start
        loss = np.sum(share * (log_sum - z[np.arange(len(z)), code])) + 0.5 * np.sum(pull * moved * moved)
        residual = share[:, None] * (np.exp(z - log_sum[:, None]) - target)
        return float(loss), (residual.T @ design + pull * moved).ravel()

    def curvature(flat: FloatArray) -> _Curvature:
        return _Curvature(design, share, softmax(design @ flat.reshape(start.shape).T), pull)

    found = _minimise(loss_and_gradient, curvature, start.ravel())
    beta = found.reshape(start.shape)
    return DirichletMap(np.ascontiguousarray(beta[:, :-1]), beta[:, -1].copy())


class _Curvature:
    """Second derivatives of the loss at one point: a matrix for few classes, products with directions for many."""

    def __init__(self, design: FloatArray, share: FloatArray, q: FloatArray, pull: FloatArray):
        self.design, self.share, self.q, self.pull = design, share, q, pull
        self.matrix = self._as_matrix() if q.shape[1] <= _MATRIX_CLASSES else None

    def __matmul__(self, direction: FloatArray) -> FloatArray:
        if self.matrix is not None:
            return np.asarray(self.matrix @ direction, dtype=np.float64)
        move = direction.reshape(self.pull.shape)
        along = self.design @ move.T
        curved = self.share[:, None] * self.q * (along - np.sum(self.q * along, axis=1, keepdims=True))
        return np.asarray(curved.T @ self.design + self.pull * move, dtype=np.float64).ravel()

    def _as_matrix(self) -> FloatArray:
        """Σ share·q_a(δ_ab − q_b)·xxᵀ in the block of classes a and b, and the pull on the diagonal."""
        n_classes, width = self.pull.shape
        blocks = np.empty((n_classes, width, n_classes, width))
        for a in range(n_classes):
            for b in range(a + 1):
                along = self.share * self.q[:, a] * (float(a == b) - self.q[:, b])
                blocks[a, :, b, :] = (self.design * along[:, None]).T @ self.design
                blocks[b, :, a, :] = blocks[a, :, b, :].T
        return blocks.reshape(self.pull.size, -1) + np.diag(self.pull.ravel())


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


class DirichletCalibrator(ManyScores):
    """Dirichlet calibration, softmax(W·ln p + b), for two classes or many (Kull et al. 2019).

    With K score columns labels are of any type and ``calibrate`` gives K columns; with a single one it is a binary
    method like the others, on (1 − p, p).

    Parameters
    ----------
    score_column : str, int, sequence of them or None, default=None
        One column for each class, in the order of ``classes``, or one column for two classes; None takes all columns.
    penalty : float, default=1e-3
        Weight of the squared off-diagonal of W and of the squared b in the loss (ODIR).
    classes : sequence or None, default=None
        Labels in the order of the score columns; None sorts them.

    Attributes
    ----------
    map_ : DirichletMap
        ``weights`` W of shape (K, K) and ``intercept`` b of shape (K,).
    classes_ : ndarray of shape (K,)
        The classes, in the order of the columns of ``predict_proba``.
    """

    method = "dirichlet"

    def __init__(
        self,
        score_column: str | int | Sequence[str | int] | None = None,
        *,
        penalty: float = 1e-3,
        classes: Sequence[Any] | None = None,
    ):
        self.score_column = score_column
        self.penalty = penalty
        self.classes = classes

    def _fit_classes(self, rows: ClassRows, code: npt.NDArray[np.intp], weight: FloatArray) -> None:
        at_least(0, penalty=self.penalty)
        self.map_ = fit_dirichlet(rows.probabilities, code, weight, self.penalty)

    def _calibrate_classes(self, rows: ClassRows) -> FloatArray:
        return self.map_(rows.probabilities)

    def _state(self) -> dict[str, Any]:
        weights, intercept = self.map_.weights.tolist(), self.map_.intercept.tolist()
        return {"weights": weights, "intercept": intercept, "classes": self.classes_.tolist()}

    def _restore(self, state: dict[str, Any]) -> None:
        weights, intercept = (np.asarray(state[k], dtype=np.float64) for k in ("weights", "intercept"))
        if weights.shape != (len(intercept), len(intercept)):
            raise ValueError(f"weights of shape {weights.shape} for {len(intercept)} classes")
        self.map_ = DirichletMap(weights, intercept)
        self.classes_ = np.asarray(state["classes"])
