"""Multinomial logistic regression on the logarithms of all classes' scores, drawn to a start by squared penalties."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from mbct.stats.logodds import softmax
from mbct.validation import FloatArray

RIDGE = 1e-9
"""Pull to the start in the mean loss: too small to see, it keeps separable labels from infinity."""
_MATRIX_CLASSES = 16  # Classes up to which the K(K + 1) second derivatives squared are worth a matrix


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
