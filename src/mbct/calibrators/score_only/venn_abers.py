"""Venn-Abers: two isotonic regressions, with the new row taken once as positive and once as negative."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mbct.calibrators.score_only.counts import ScoreCounts
from mbct.calibrators.score_only.score_map import ScoreCalibrator, ScoreMap, is_step_function
from mbct.jit import kernel
from mbct.validation import FloatArray


@dataclass(frozen=True)
class VennAbersMap(ScoreMap):
    """p₀ and p₁ as step functions of the score, merged as p₁/(1 − p₀ + p₁).

    ``negative_rates[j]`` is p₀ for a score with j of ``negative_steps`` at or below it, ``positive_rates[j]`` is p₁ for
    one with j of ``positive_steps`` below it.
    """

    expected = "steps that rise, one rate from 0 to 1 more than steps, and p₀ and p₁ that can be merged"
    negative_steps: FloatArray
    negative_rates: FloatArray
    positive_steps: FloatArray
    positive_rates: FloatArray

    def is_sound(self) -> bool:
        """Whether both are step functions, and p₀ is nowhere 1 where p₁ is 0."""
        functions = (self.negative_steps, self.negative_rates), (self.positive_steps, self.positive_rates)
        if not all(is_step_function(*function) for function in functions):
            return False
        steps = np.concatenate([self.negative_steps, self.positive_steps, [0.0, 1.0]])
        p0, p1 = self.interval(np.concatenate([steps, np.nextafter(steps, 1.0)]))
        return bool(np.all(1.0 - p0 + p1 > 0.0))

    def interval(self, y_prob: FloatArray) -> tuple[FloatArray, FloatArray]:
        """p₀ and p₁ of each score, two binary searches a row."""
        p0 = self.negative_rates[np.searchsorted(self.negative_steps, y_prob, side="right")]
        p1 = self.positive_rates[np.searchsorted(self.positive_steps, y_prob, side="left")]
        return p0, p1

    def __call__(self, y_prob: FloatArray) -> FloatArray:
        """The probability whose regret in log loss is smallest over both ends of the interval."""
        p0, p1 = self.interval(y_prob)
        return p1 / (1.0 - p0 + p1)


class VennAbersCalibrator(ScoreCalibrator):
    """Inductive Venn-Abers prediction (Vovk, Petej and Fedorova 2015).

    For a new score, isotonic regression is fitted with the row added as a negative (p₀) and as a positive (p₁); one
    of the two is perfectly calibrated. After O(n log n) preparation a prediction costs O(log n). The new row has
    weight one.

    Parameters
    ----------
    score_column : str, int or None, default=None
        Column of the prediction, by name or number; None where ``X`` is one column or ``y_prob`` is passed to ``fit``.

    Attributes
    ----------
    map_ : VennAbersMap
        p₀ and p₁ as step functions of the score.
    """

    method = "venn-abers"
    map_type = VennAbersMap
    map_: VennAbersMap
    monotone = True

    def fit_map(self, counts: ScoreCounts) -> VennAbersMap:
        """Prepare both step functions."""
        positive = rates_with_added_positive(counts.total, counts.positive)
        # Seen from the other end, with the classes exchanged, a negative is a positive.
        mirrored = rates_with_added_positive(counts.total[::-1].copy(), (counts.total - counts.positive)[::-1].copy())
        p0 = np.concatenate([[0.0], 1.0 - mirrored[::-1]])
        p1 = np.concatenate([positive, [1.0]])
        return VennAbersMap(*_steps(counts.score, p0), *_steps(counts.score, p1))

    def interval(self, X: Any, *, y_prob: Any = None) -> FloatArray:
        """Lower and upper probability of each row.

        Parameters
        ----------
        X, y_prob : as in :meth:`fit`
            The rows; their predictions where ``X`` does not hold them.

        Returns
        -------
        ndarray of shape (n_rows, 2)
            p₀ and p₁; :meth:`calibrate` gives p₁/(1 − p₀ + p₁), which lies between them.
        """
        _, score = self._read(X, y_prob)
        return np.column_stack(self.map_.interval(score))


def _steps(score: FloatArray, rates: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The scores at which the rate changes, and the rate before, between and after them."""
    changes = rates[1:] != rates[:-1]
    return score[changes], rates[np.concatenate([[True], changes])]


@kernel
def rates_with_added_positive(total: FloatArray, positive: FloatArray) -> FloatArray:
    """Isotonic rate at each value after one positive of weight 1 was added there; linear time.

    The cumulative diagram P_i = (Σw, Σwy) has as isotonic rates the slopes of its greatest convex minorant. With the
    added row just before value i, all points to its left stand at P − (1, 1). ``xs``, ``ys`` hold the minorant's
    corners from the added row onwards, nearest on top; moving the row one value on changes only the top.
    """
    n = len(total)
    x, y = np.zeros(n + 1), np.zeros(n + 1)
    for i in range(n):
        x[i + 1], y[i + 1] = x[i] + total[i], y[i] + positive[i]
    xs, ys = np.empty(n + 2), np.empty(n + 2)
    xs[0], ys[0] = x[n], y[n]
    size = 1
    for i in range(n - 1, -2, -1):
        new_x, new_y = (x[i], y[i]) if i >= 0 else (-1.0, -1.0)
        while size > 1 and _not_convex(new_x, new_y, xs[size - 1], ys[size - 1], xs[size - 2], ys[size - 2]):
            size -= 1
        xs[size], ys[size] = new_x, new_y
        size += 1
    rates = np.empty(n)
    for i in range(n):
        run, rise = xs[size - 2] - xs[size - 1], ys[size - 2] - ys[size - 1]
        rates[i] = min(max(rise / run, 0.0), 1.0)
        new_x, new_y = x[i + 1] - 1.0, y[i + 1] - 1.0
        if (new_y - ys[size - 1]) * run >= rise * (new_x - xs[size - 1]):
            continue
        size -= 1
        while size > 1 and _not_convex(new_x, new_y, xs[size - 1], ys[size - 1], xs[size - 2], ys[size - 2]):
            size -= 1
        xs[size], ys[size] = new_x, new_y
        size += 1
    for i in range(1, n):
        rates[i] = max(rates[i], rates[i - 1])
    return rates


@kernel
def _not_convex(ax: float, ay: float, bx: float, by: float, cx: float, cy: float) -> bool:
    return (by - ay) * (cx - bx) >= (cy - by) * (bx - ax)
