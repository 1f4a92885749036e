"""Dirichlet calibration: multinomial logistic regression on the logarithms of all classes' scores."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from mbct.calibrators.base import Calibrator
from mbct.calibrators.inputs import TrainingData, class_labels, take_labels, take_weights
from mbct.engines.columns import Columns, column_name, read_columns
from mbct.errors import DataError
from mbct.stats.logodds import EPSILON
from mbct.validation import FloatArray, as_probabilities, at_least, same_length

_RIDGE = 1e-9
"""Pull of the diagonal to 1 in the mean loss: too small to see, it keeps separable labels from infinity."""
_MATRIX_CLASSES = 16
"""Classes up to which the K(K + 1) second derivatives squared are worth a matrix."""


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
        return _softmax(z)


def _softmax(z: FloatArray) -> FloatArray:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True), dtype=np.float64)


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
        return _Curvature(design, share, _softmax(design @ flat.reshape(start.shape).T), pull)

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


class DirichletCalibrator(Calibrator):
    """Dirichlet calibration, softmax(W·ln p + b), for two classes or many (Kull et al. 2019).

    ``score`` names one column for each class, in the order of ``classes`` (default: the sorted labels; None: all
    columns); labels are then of any type and ``calibrate`` gives K columns. With a single score column it is a
    binary method like the others, on (1 − p, p). ``penalty`` holds back the off-diagonal of W and b (ODIR).
    """

    method = "dirichlet"
    score: str | int | Sequence[str | int] | None  # type: ignore[assignment]

    def __init__(
        self,
        score: str | int | Sequence[str | int] | None = None,
        *,
        penalty: float = 1e-3,
        classes: Sequence[Any] | None = None,
    ):
        self.score = score
        self.penalty = penalty
        self.classes = classes

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, y_prob: Any = None) -> Self:
        """Learn W and b; ``y_prob`` may be a matrix with one column for each class."""
        at_least(0, penalty=self.penalty)
        columns = read_columns(X)
        columns, labels, label_name = take_labels(columns, y)
        columns, weight = take_weights(columns, sample_weight)
        names = self._score_names(columns, y_prob)
        if len(names) == 1:
            super().fit(X, y, sample_weight, y_prob=y_prob)
            return self
        probabilities = _matrix(columns, names, y_prob)
        same_length(columns.n_rows, y=labels)
        classes, code = class_labels(labels, label_name, self.classes)
        if len(classes) != len(names):
            raise DataError(
                f"{len(names)} score columns, but {label_name} has {len(classes)} classes ({_listed(classes)}): "
                "pass one score column for each class, and classes=… where a class is missing from the labels"
            )
        if len(np.unique(code[weight > 0])) < 2:
            raise DataError(f"{label_name} has a single class: at least two are needed; widen the sample")
        self.map_ = fit_dirichlet(probabilities, code, weight, self.penalty)
        self._remember(names, columns.names)  # type: ignore[arg-type]
        self.classes_ = classes
        return self

    def calibrate(self, X: Any, *, y_prob: Any = None) -> FloatArray:
        """Calibrated probabilities: K columns, or those of the positive class where one score column was fitted."""
        if isinstance(getattr(self, "score_", ""), str):
            return super().calibrate(X, y_prob=y_prob)
        return self.map_(_matrix(read_columns(X), self.score_, y_prob))

    def predict_proba(self, X: Any, *, y_prob: Any = None) -> FloatArray:
        """Calibrated probabilities of all classes, in the order of ``classes_``."""
        calibrated = self.calibrate(X, y_prob=y_prob)
        return calibrated if calibrated.ndim == 2 else np.column_stack([1.0 - calibrated, calibrated])

    def predict(self, X: Any, *, y_prob: Any = None) -> np.ndarray[Any, Any]:
        """The most probable class."""
        likeliest = np.argmax(self.predict_proba(X, y_prob=y_prob), axis=1)
        return np.asarray(self.classes_[likeliest])

    def _score_names(self, columns: Columns, y_prob: Any) -> list[str]:
        if y_prob is not None:
            width = np.asarray(y_prob).shape[1] if np.ndim(y_prob) == 2 else 1
            return ["y_prob"] if width == 1 else [f"y_prob_{k}" for k in range(width)]
        if self.score is None:
            return columns.names
        many = [self.score] if isinstance(self.score, str | int) else self.score
        return [column_name(name) for name in many]

    def _fit(self, data: TrainingData) -> None:
        both = np.column_stack([1.0 - data.y_prob, data.y_prob])
        self.map_ = fit_dirichlet(both, data.y_true.astype(np.intp), data.weight, self.penalty)

    def _calibrate(self, columns: Columns, y_prob: FloatArray) -> FloatArray:  # noqa: ARG002
        return self.map_(np.column_stack([1.0 - y_prob, y_prob]))[:, 1]

    def _state(self) -> dict[str, Any]:
        weights, intercept = self.map_.weights.tolist(), self.map_.intercept.tolist()
        return {"weights": weights, "intercept": intercept, "classes": self.classes_.tolist()}

    def _restore(self, state: dict[str, Any]) -> None:
        weights, intercept = (np.asarray(state[k], dtype=np.float64) for k in ("weights", "intercept"))
        if weights.shape != (len(intercept), len(intercept)):
            raise ValueError(f"weights of shape {weights.shape} for {len(intercept)} classes")
        self.map_ = DirichletMap(weights, intercept)
        self.classes_ = np.asarray(state["classes"])


def _matrix(columns: Columns, names: Sequence[str], y_prob: Any) -> FloatArray:
    if y_prob is None:
        return np.column_stack([as_probabilities(columns.numpy(n), f"score column {n!r}") for n in names])
    matrix = np.asarray(y_prob)
    if matrix.ndim != 2 or matrix.shape[1] != len(names):
        raise DataError(f"y_prob must have {len(names)} columns, one for each class, got shape {matrix.shape}")
    same_length(columns.n_rows, y_prob=matrix)
    return np.column_stack([as_probabilities(matrix[:, k], f"y_prob[:, {k}]") for k in range(len(names))])


def _listed(classes: np.ndarray[Any, Any]) -> str:
    return ", ".join(map(repr, classes.tolist()[:8])) + (" …" if len(classes) > 8 else "")
