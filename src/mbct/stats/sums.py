"""The sums that stand for a set of rows: everything the trees need follows from them.

========== ============ ==============================================
sum        formula      meaning
========== ============ ==============================================
count      Σw           rows, or their weights
label      Σw·y         positives
pred       Σw·p         predicted positives
pred2      Σw·p²        for the squared residual
pred_label Σw·p·y       for the squared residual
logit      Σw·logit(p)  for the ``odds`` link
========== ============ ==============================================

Sums add up and fade; multiplying every prediction by k (a boosting round) keeps them closed.

Duplicates: whether cells hold many rows, or a few rows many times over, by weights or by repetition.

What was fitted on some rows is evaluated on others, which must hold no duplicate of a row that was fitted on. Weights
do not say which they are: 10 may stand for ten rows of a table of counts, or for one row that matters ten times. Two
things tell. Where all rows of a class weigh the same, every weight is a multiple of it. And labels: rows of one cell
that are independent differ as often as their rate r says, so that over cells

    E[l(n − l)/(n − 1)] = n·r(1 − r),

where l of n are positive; duplicates of one row never differ. They show in the smallest cells: a cell of n that holds
rows m times each falls short of this by the share (m − 1)/(n − 1). Cells that differ in their rates fall short as well,
but large ones as much as small ones.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mbct.stats.probabilities import logit
from mbct.validation import FloatArray


@dataclass(frozen=True)
class Sums:
    """Six aligned arrays (or scalars): one entry for each set of rows."""

    count: FloatArray
    label: FloatArray
    pred: FloatArray
    pred2: FloatArray
    pred_label: FloatArray
    logit: FloatArray

    @classmethod
    def of_rows(cls, y_prob: FloatArray, y_true: FloatArray, weight: FloatArray) -> Self:
        """Every row a set of its own.

        >>> rows = Sums.of_rows(np.array([0.5, 0.25]), np.array([1.0, 0.0]), np.ones(2))
        >>> float(rows.total().pred2), float(rows.total().pred_label)
        (0.3125, 0.5)
        """
        weighted = weight * y_prob
        return cls(weight, weight * y_true, weighted, weighted * y_prob, weighted * y_true, weight * logit(y_prob))

    def _each(self, of: Callable[[FloatArray], FloatArray]) -> Self:
        return type(self)(*(of(getattr(self, field.name)) for field in fields(self)))

    def __len__(self) -> int:
        return len(self.count)

    def scaled(self, factor: float) -> Self:
        """Every row counts ``factor`` times: how old days fade."""
        return self._each(lambda sums: sums * factor)

    def divided(self, amount: float) -> Self:
        """Every row counts as one of ``amount``; what is a multiple of it divides exactly."""
        return self._each(lambda sums: sums / amount)

    def take(self, index: Any) -> Self:
        """The sets at ``index`` (anything numpy accepts)."""
        return self._each(lambda sums: sums[index])

    def total(self) -> Self:
        """One set of all rows."""
        return self._each(lambda sums: np.sum(sums, axis=0))

    def grouped(self, group: npt.NDArray[np.integer[Any]], n_groups: int) -> Self:
        """Sets joined by their group number, 0 … n_groups − 1."""
        return self._each(lambda sums: np.bincount(group, sums, n_groups).astype(np.float64))


_MORE_THAN_ONE = 1.5  # Weight from which a cell may hold more than one row
_SCORE_GROUPS = 20  # Groups of equal weight in which the rate is taken
_MOSTLY = 0.6  # Share of the differences of larger cells below which cells hold mostly duplicates
_HARDLY_ANY = 0.25  # Share of the differences of independent rows below which they do, whatever larger ones show
_BEYOND_CHANCE = 2.5  # Standard errors by which differences must be missing
_ENOUGH = 10.0  # Differences to expect before those seen are a measure
_ROUNDING = 1e-9
_MULTIPLE = 1e-6  # Relative error within which a weight is a multiple of another
_SINGLES = 0.1  # Share of the cells with a class that must hold a single row of it for its weight to be seen


@dataclass(frozen=True)
class Duplicates:
    """``per_row``: how many duplicates of itself the mean unit of weight is among, 1 where none show.

    ``uniform``: all rows have as many, so that weight divided by it counts rows; else a cell is best taken for one row.
    """

    per_row: float
    uniform: bool = True


def find_duplicates(count: FloatArray, label: FloatArray, rate: FloatArray) -> Duplicates:
    """Duplicates in cells of some weight and positives; ``rate`` is what independent rows of each would show, or about.

    >>> rng = np.random.default_rng(0)
    >>> rows, weight, rate = rng.binomial(1, 0.3, 1000), rng.integers(1, 4, 1000), np.full(1000, 0.3)
    >>> find_duplicates(np.full(1000, 2.5), 2.5 * rows, rate)
    Duplicates(per_row=2.5, uniform=True)
    >>> find_duplicates(weight * 1.0, weight * 1.0 * rows, rate).uniform
    False
    >>> find_duplicates(np.full(1000, 4.0), rng.binomial(4, 0.3, 1000).astype(float), rate)
    Duplicates(per_row=1.0, uniform=True)
    """
    negatives = count - label
    positive, negative = _weight_of_class(label), _weight_of_class(negatives)
    if not positive or not negative:
        repeated = _copies_by_labels(count, label, rate)
        return Duplicates(repeated, uniform=repeated == 1.0)
    if abs(positive - negative) > _MULTIPLE * positive:
        return Duplicates(float(np.sum(label * positive + negatives * negative) / np.sum(count)), uniform=False)
    repeated = _copies_by_labels(count / positive, label / positive, rate)
    return Duplicates(repeated * positive, uniform=repeated == 1.0)


def _weight_of_class(weight: FloatArray) -> float:
    """What each row of a class weighs where all weigh the same, seen from the weight of the class in cells; else 0."""
    present = weight[weight > _ROUNDING]
    if not len(present):
        return 0.0
    times = present / present.min()
    single = times < 1.0 + _MULTIPLE
    regular = bool(np.all(np.abs(times - np.rint(times)) <= _MULTIPLE * times)) and np.mean(single) >= _SINGLES
    return float(np.mean(present[single])) if regular else 0.0


def _copies_by_labels(count: FloatArray, label: FloatArray, rate: FloatArray) -> float:
    """Duplicates of a row, averaged over weight, as labels show them."""
    large = np.flatnonzero(count > _MORE_THAN_ONE)
    if not len(large):
        return 1.0
    n, positives, rate = count[large], label[large], rate[large]
    octave = np.floor(np.log2(n)).astype(np.intp)
    variance = n * rate * (1.0 - rate)
    seen, expected, others = (
        np.bincount(octave, amount).astype(np.float64)
        for amount in (positives * (n - positives) / (n - 1.0), variance, variance * (n - 1.0))
    )
    whole = np.abs(n - np.rint(n)) <= _ROUNDING * n
    if not np.all(whole) and float(expected.sum()) < _ENOUGH:
        # Rows are weighted for certain, and labels are too few to tell whether anything else is in the cells.
        most = np.inf
    else:
        most = max(_most_duplicates(seen, expected, others), 1.0)
    return float(np.sum(count * np.clip(count, 1.0, most)) / np.sum(count))


def rate_by_score(count: FloatArray, label: FloatArray, log_odds: FloatArray) -> FloatArray:
    """Rate of positives among cells of about the same score, for the score itself may be far off."""
    order = np.argsort(log_odds, kind="stable")
    upto = np.cumsum(count[order])
    group = np.empty(len(count), np.intp)
    group[order] = np.minimum(upto / upto[-1] * _SCORE_GROUPS, _SCORE_GROUPS - 1).astype(np.intp)
    weight = np.bincount(group, count, _SCORE_GROUPS)
    rate = np.bincount(group, label, _SCORE_GROUPS) / np.where(weight > 0.0, weight, 1.0)
    return np.asarray(rate[group], dtype=np.float64)


def _most_duplicates(seen: FloatArray, expected: FloatArray, others: FloatArray) -> float:
    """Duplicates of a row in the largest cells that hold mostly duplicates, by octaves of weight; 0 where none do."""
    significant, most = False, 0.0
    seen_so_far = expected_so_far = 0.0
    for octave in np.flatnonzero(expected > 0.0):
        larger = float(expected[octave + 1 :].sum())
        measured = min(float(seen[octave + 1 :].sum()) / larger, 1.0) if larger >= _ENOUGH else 0.0
        if seen[octave] >= max(_MOSTLY * measured, _HARDLY_ANY) * expected[octave]:
            break
        # Where larger cells hold duplicates too, or there are none, they are no measure.
        share = measured if _MOSTLY * measured > _HARDLY_ANY else 1.0
        seen_so_far += float(seen[octave])
        expected_so_far += share * float(expected[octave])
        significant = significant or expected_so_far - seen_so_far > _BEYOND_CHANCE * np.sqrt(expected_so_far)
        missing = 1.0 - float(seen[octave]) / (share * float(expected[octave]))
        most = 1.0 + missing * float(others[octave] / expected[octave])
    return most if significant else 0.0
