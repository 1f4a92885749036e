"""Multinomial logistic regression on the logarithms of all classes' scores, drawn to a start by squared penalties."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from mbct.calibrators.score_only.score_map import LARGEST_NUMBER
from mbct.model.file_check import numbers, read_list, read_object
from mbct.training.joint import softmax
from mbct.validation import FloatArray

RIDGE = 1e-9
"""Pull to the start in the mean loss: too small to see, it keeps separable labels from infinity."""
_MATRIX_CLASSES = 16  # Classes up to which the K(K + 1) second derivatives squared are worth a matrix


@dataclass(frozen=True)
class LinearLogits:
    """softmax(W·x + b) of rows x: one row of W and one entry of b for each class."""

    weights: FloatArray
    intercept: FloatArray

    def __call__(self, x: FloatArray) -> FloatArray:
        """Probabilities, shape (n, K)."""
        z = np.tile(self.intercept, (len(x), 1))
        # Class by class instead of one product of matrices: a row's result does not depend on its neighbours.
        for k in range(len(self.intercept)):
            z += x[:, k : k + 1] * self.weights[:, k]
        return softmax(z)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; floats keep every bit."""
        return {"weights": self.weights.tolist(), "intercept": self.intercept.tolist()}

    @classmethod
    def from_dict(cls, state: dict[str, Any], n_classes: int) -> Self:
        """Undo :meth:`to_dict`; an error where types, lengths or ranges make no sense."""
        read_object(state, "state", ("weights", "intercept"))
        rows = read_list(state["weights"], "state.weights", n_classes, least=n_classes)
        *weights, intercept = (
            numbers(row, "state.weights and intercept", n_classes, -LARGEST_NUMBER, LARGEST_NUMBER)
            for row in (*rows, state["intercept"])
        )
        return cls(np.stack(weights), intercept)


def fit_logits(
    x: FloatArray, code: npt.NDArray[np.intp], weight: FloatArray, pull: FloatArray, begin: LinearLogits | None = None
) -> LinearLogits:
    """Minimise the mean log loss + ½ Σ pull·(β − (I, 0))², β = (W, b) of shape (K, K + 1); infinite pull holds fast.

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

    first = start if begin is None else np.column_stack([begin.weights, begin.intercept])
    beta = _filled(start, free, _minimise(loss_and_gradient, curvature, first[free]))
    return LinearLogits(np.ascontiguousarray(beta[:, :-1]), beta[:, -1].copy())


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
