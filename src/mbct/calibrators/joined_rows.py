"""Equal rows joined into one of their summed weight, in an order that their content alone decides."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from mbct.calibrators.folds import row_keys
from mbct.engines.columns import Columns
from mbct.stats.copies import Copies, find_copies, rate_by_score
from mbct.validation import FloatArray

_MOST_COPIES = 10**9
"""Beyond what numpy draws without putting back; of so many, each may be drawn alone and the share still holds."""


@dataclass(frozen=True)
class JoinedRows:
    """Distinct rows of numbers and label, with the weight of each.

    A row of weight k and k copies of it, in any order, give the same rows in the same order, so whatever is fitted to
    them, or drawn for them one after the other, is the same too.
    """

    matrix: FloatArray
    label: FloatArray
    weight: FloatArray
    group: npt.NDArray[np.intp]
    """Rows that agree in all numbers, whatever their labels, share one."""

    @classmethod
    def of_rows(cls, matrix: FloatArray, label: FloatArray, weight: FloatArray, seed: int) -> Self:
        """Join rows that agree in all numbers (NaN equals NaN) and in the label.

        >>> rows = JoinedRows.of_rows(np.array([[0.1], [0.2], [0.1]]), np.array([1.0, 0.0, 1.0]), np.ones(3), seed=0)
        >>> sorted(zip(rows.matrix[:, 0].tolist(), rows.weight.tolist()))
        [(0.1, 2.0), (0.2, 1.0)]
        """
        numbers = {f"column {j}": matrix[:, j] for j in range(matrix.shape[1])}
        key = row_keys(Columns({"label": label, **numbers}, len(matrix)), seed)
        # By weight too, so that sums of fractions do not depend on the order of the rows.
        order = np.lexsort((weight, key))
        starts = np.flatnonzero(np.concatenate([[True], np.diff(key[order]) != 0]))
        first = order[starts]
        distinct = Columns({name: column[first] for name, column in numbers.items()}, len(first))
        _, group = np.unique(row_keys(distinct, seed), return_inverse=True)
        return cls(matrix[first], label[first], np.add.reduceat(weight[order], starts), group)

    def __len__(self) -> int:
        return len(self.label)

    def copies(self, label: FloatArray, log_odds: FloatArray) -> Copies:
        """Copies in the groups, as any label of two values and its log-odds show them."""
        score = np.empty(int(self.group.max()) + 1)
        score[self.group] = log_odds
        count, positives = (
            np.bincount(self.group, amount).astype(np.float64) for amount in (self.weight, self.weight * label)
        )
        return find_copies(count, positives, rate_by_score(count, positives, score))

    def parted_by_group(self, share: float, rng: np.random.Generator) -> tuple[Self, Self]:
        """A random ``share`` of the groups, each with all its rows, and the others."""
        order = rng.permutation(int(self.group.max()) + 1)
        drawn = np.where(order[self.group] < share * len(order), self.weight, 0.0)
        return self._with_weight(drawn), self._with_weight(self.weight - drawn)

    def parted(self, share: float, rng: np.random.Generator) -> tuple[Self, Self]:
        """A random ``share`` of each class, and the others; each row that a weight counts falls on its own.

        What a weight has beyond a whole number falls as one more, smaller row.
        """
        drawn = np.zeros(len(self))
        for value in (0.0, 1.0):
            rows = np.flatnonzero(self.label == value)
            whole = np.floor(self.weight[rows])
            rest = self.weight[rows] - whole
            left = np.flatnonzero(rest)
            drawn[rows] = _copies_drawn(whole.astype(np.int64), share, rng)
            drawn[rows[left]] += rest[left] * (rng.permutation(len(left)) < share * len(left))
        return self._with_weight(drawn), self._with_weight(self.weight - drawn)

    def has_two_of_each_class(self) -> bool:
        """Whether either class has two rows, distinct ones or copies of one."""
        classes = [self.weight[self.label == value] for value in (0.0, 1.0)]
        return all(max(len(weight), float(np.sum(weight))) >= 2 for weight in classes)

    def _with_weight(self, weight: FloatArray) -> Self:
        rows: npt.NDArray[np.intp] = np.flatnonzero(weight > 0)
        return type(self)(self.matrix[rows], self.label[rows], weight[rows], self.group[rows])


def _copies_drawn(copies: npt.NDArray[np.int64], share: float, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """How many of each row's copies are among a ``share`` of all, drawn without putting back."""
    total = int(copies.sum())
    if total >= _MOST_COPIES:
        return rng.binomial(copies, share)
    return rng.multivariate_hypergeometric(copies, round(share * total), method="marginals")
