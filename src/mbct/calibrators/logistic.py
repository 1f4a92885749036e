"""Logistic regression on few features of the score, by Newton's method: the engine of the scaling methods."""

from itertools import combinations

import numpy as np
import numpy.typing as npt

from mbct.calibrators.score_counts import ScoreCounts
from mbct.stats.logodds import sigmoid
from mbct.validation import FloatArray

_MAX_STEPS = 200
_RIDGE = 1e-12
"""Weight of the pull to the start, relative to the rows' weight: too small to see, it makes the optimum unique
where labels are separable or features constant."""
_DECREMENT = 1e-24
"""Squared Newton decrement for each unit of weight at which the optimum counts as reached."""


def fit_logistic(features: FloatArray, counts: ScoreCounts, start: FloatArray, *, intercept: bool = True) -> FloatArray:
    """β ≥ 0 (and an intercept of any sign, last) that maximises the likelihood of σ(features·β + intercept).

    Slopes are held at or above zero so that the map never turns the ranking: of all ways to set slopes to
    zero, the best one without a negative slope is taken. A feature that is constant beside an intercept cannot
    be told from it and keeps its slope of ``start``.

    >>> counts = ScoreCounts(np.array([0.3, 0.6]), np.array([25.0, 50.0]), np.array([100.0, 100.0]))
    >>> fit_logistic(np.log(counts.score / (1 - counts.score))[:, None], counts, np.array([1.0, 0.0])).round(4).tolist()
    [0.877, -0.3556]
    """
    n_slopes = features.shape[1]
    design = np.column_stack([features, np.ones(len(features))]) if intercept else features
    seen = np.ones(design.shape[1], dtype=bool)
    seen[:n_slopes] = (np.ptp(features, axis=0) > 0) | (not intercept)
    best, best_loss = start, np.inf
    for n_held in range(n_slopes + 1):
        for held in combinations(range(n_slopes), n_held):
            free = seen.copy()
            free[list(held)] = False
            beta = start.copy()
            beta[list(held)] = 0.0
            beta = _newton(design, counts, beta, free)
            loss = _loss(design @ beta, counts)
            if np.all(beta[:n_slopes] >= 0.0) and loss < best_loss:
                best, best_loss = beta, loss
        if n_held == 0 and np.isfinite(best_loss):
            break
    return best


def _loss(z: FloatArray, counts: ScoreCounts) -> float:
    return float(np.sum(counts.total * np.logaddexp(0.0, z) - counts.positive * z))


def _newton(design: FloatArray, counts: ScoreCounts, start: FloatArray, free: npt.NDArray[np.bool_]) -> FloatArray:
    """Minimise the ridged loss over the ``free`` coefficients, halving steps that do not lower it."""
    if not free.any():
        return start
    columns = np.ascontiguousarray(design[:, free].T)
    offset = design @ np.where(free, 0.0, start)
    weight = float(np.sum(counts.total))
    ridge = _RIDGE * weight

    def objective(beta: FloatArray) -> float:
        return _loss(offset + beta @ columns, counts) + 0.5 * ridge * float(np.sum((beta - start[free]) ** 2))

    beta = start[free]
    current = objective(beta)
    for _ in range(_MAX_STEPS):
        q = sigmoid(offset + beta @ columns)
        # Sums instead of products of matrices: their order, and so the last bit, does not depend on threads.
        gradient = np.sum(columns * (counts.total * q - counts.positive), axis=1) + ridge * (beta - start[free])
        curvature = counts.total * q * (1.0 - q)
        hessian = np.array([[np.sum(a * curvature * b) for b in columns] for a in columns])
        step = np.linalg.solve(hessian + ridge * np.eye(len(beta)), gradient)
        decrement = float(gradient @ step) / weight
        if decrement <= _DECREMENT:
            break
        scale, moved = 1.0, objective(beta - step)
        while moved > current and scale > 1e-10:
            scale /= 2.0
            moved = objective(beta - scale * step)
        if moved >= current and decrement < 1e-14:
            break
        beta, current = beta - scale * step, moved
    result = start.copy()
    result[free] = beta
    return result
