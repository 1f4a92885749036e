"""Dirichlet calibration: multinomial logistic regression on the logarithms of all classes' scores."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mbct.calibrators.folds import row_keys, stratified_folds
from mbct.calibrators.multiclass.scaling import LogitScaling, fit_logits, fit_temperature, pull_of, summed_log_loss
from mbct.calibrators.multiclass.scores import ClassRows
from mbct.data.columns import Columns
from mbct.model.class_model import ClassScaling
from mbct.stats.probabilities import softmax
from mbct.validation import FloatArray, at_least

_PENALTIES = (10.0, 1.0, 1e-1, 1e-2, 1e-3, 1e-4)
"""Strengths that are tried on held-out rows, from nearly the base to nearly free.

Of n rows those below 1/n are left out: a prior of less than one row's weight lets the coefficients run away where the
rows are separable, which held-out rows of the same sample do not show.
"""
_N_FOLDS = 5


def penalised(n_classes: int, penalty: float, diagonal: float) -> FloatArray:
    """Pull of each coefficient for penalties on the mean square of the off-diagonal, of b and of the diagonal − 1."""
    off_diagonal = 2.0 * penalty / (n_classes * (n_classes - 1))
    return pull_of(n_classes, off_diagonal, 2.0 * diagonal / n_classes, 2.0 * penalty / n_classes)


def fit_by_cross_validation(
    x: FloatArray, code: npt.NDArray[np.intp], weight: FloatArray, fold: npt.NDArray[np.intp]
) -> FloatArray:
    """(W, b) with the penalty of the lowest log loss on held-out rows. The diagonal is drawn to 1 as well."""
    tried = [penalty for penalty in _PENALTIES if penalty * float(np.sum(weight)) >= 1.0] or _PENALTIES[:1]
    pulls = [penalised(x.shape[1], penalty, penalty) for penalty in tried]
    losses = np.zeros(len(pulls))
    for held_out in (fold == k for k in range(_N_FOLDS)):
        if held_out.all() or not held_out.any():
            continue
        fitted = None
        for i, pull in enumerate(pulls):
            fitted = fit_logits(x[~held_out], code[~held_out], weight[~held_out], pull, fitted)
            probabilities = softmax(x[held_out] @ fitted[:, :-1].T + fitted[:, -1])
            losses[i] += summed_log_loss(probabilities, code[held_out], weight[held_out])
    return fit_logits(x, code, weight, pulls[int(np.argmin(losses))])


class DirichletCalibrator(LogitScaling):
    """Dirichlet calibration, softmax(W·ln p + b), for two classes or many (Kull et al. 2019).

    With K score columns labels are of any type and ``calibrate`` gives K columns; with a single one it is a binary
    method like the others, on (1 − p, p).

    Parameters
    ----------
    score_column : str, int, sequence of them or None, default=None
        One column for each class, in the order of ``classes``, or one column for two classes; None takes all columns.
    penalty : float or "cv", default="cv"
        Weight of the mean squared off-diagonal of W and of the mean squared b in the mean loss (ODIR); "cv" takes that
        of 10⁻⁴ to 10, but at least 1/n of n rows, with the lowest log loss on five folds, and draws W to one fitted
        temperature.
    classes : sequence or None, default=None
        Labels in the order of the score columns; None sorts them.

    Attributes
    ----------
    map_ : ClassScaling
        ``weights`` W of shape (K, K), ``intercept`` b of shape (K,), and the temperature that stands before W where
        ``penalty="cv"``.
    classes_ : ndarray of shape (K,)
        The classes, in the order of the columns of ``predict_proba``.
    """

    method = "dirichlet"

    def __init__(
        self,
        score_column: str | int | Sequence[str | int] | None = None,
        *,
        penalty: float | Literal["cv"] = "cv",
        classes: Sequence[Any] | None = None,
    ):
        self.score_column = score_column
        self.penalty = penalty
        self.classes = classes

    def _fit_classes(self, rows: ClassRows, code: npt.NDArray[np.intp], weight: FloatArray) -> None:
        n_classes = rows.probabilities.shape[1]
        if self.penalty == "cv":
            start = fit_temperature(rows.probabilities, code, weight)
            # Folds depend on what rows hold, so that a weight of k is k copies.
            scores = Columns({str(k): score for k, score in enumerate(rows.probabilities.T)}, len(code))
            fold = stratified_folds(row_keys(scores, 0), code, _N_FOLDS)
            beta = fit_by_cross_validation(start.tempered(rows.probabilities), code, weight, fold)
        else:
            at_least(0, penalty=self.penalty)
            start = ClassScaling.identity(n_classes)
            pull = penalised(n_classes, self.penalty, 0.0)
            beta = fit_logits(start.tempered(rows.probabilities), code, weight, pull)
        self.map_ = start.with_coefficients(beta)
