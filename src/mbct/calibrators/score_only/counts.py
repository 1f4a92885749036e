"""Rows summed by score: all that a method needs which looks at the score alone."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mbct.validation import FloatArray


@dataclass(frozen=True)
class ScoreCounts:
    """Distinct scores in ascending order, with the weight of the positives and of all rows at each.

    A row of weight k and k copies of it, in any order, give the same counts, and so the same fit.
    """

    score: FloatArray
    positive: FloatArray
    total: FloatArray

    @classmethod
    def of_rows(cls, y_prob: FloatArray, y_true: FloatArray, weight: FloatArray) -> Self:
        """Sum rows by score; rows of weight zero are left out.

        >>> rows = ScoreCounts.of_rows(np.array([0.2, 0.1, 0.2]), np.array([1.0, 0.0, 0.0]), np.array([1.0, 2.0, 3.0]))
        >>> rows.score.tolist(), rows.positive.tolist(), rows.total.tolist()
        ([0.1, 0.2], [0.0, 1.0], [2.0, 4.0])
        """
        counted = weight > 0
        y_prob, y_true, weight = y_prob[counted], y_true[counted], weight[counted]
        # Sorted by all three, so that sums of fractional weights do not depend on the order of the rows.
        order = np.lexsort((weight, y_true, y_prob))
        score, label, weight = y_prob[order], y_true[order], weight[order]
        starts = np.flatnonzero(np.concatenate([[True], score[1:] != score[:-1]]))
        return cls(score[starts], np.add.reduceat(weight * label, starts), np.add.reduceat(weight, starts))

    def __len__(self) -> int:
        return len(self.score)

    @property
    def rate(self) -> FloatArray:
        """Share of positives at each score."""
        return self.positive / self.total

    @property
    def middles(self) -> FloatArray:
        """Weight up to the middle of each score."""
        return np.asarray(np.cumsum(self.total) - 0.5 * self.total)

    def joined(self, starts: npt.NDArray[np.intp]) -> Self:
        """Neighbours from each start to the next as one, at their mean score."""
        score, positive, total = (
            np.add.reduceat(each, starts) for each in (self.total * self.score, self.positive, self.total)
        )
        return type(self)(score / total, positive, total)

    def take(self, index: npt.NDArray[Any]) -> Self:
        """The scores at ``index``, which must keep them in ascending order."""
        return type(self)(self.score[index], self.positive[index], self.total[index])

    def has_both_classes(self) -> bool:
        """Whether some weight is positive and some negative."""
        return bool(np.any(self.positive > 0) and np.any(self.positive < self.total))


def held_out_folds(
    counts: ScoreCounts, n_folds: int, seed: int
) -> list[tuple[ScoreCounts, npt.NDArray[np.intp]]] | None:
    """Folds of whole scores: what is left to fit on, and the numbers of the scores held out.

    None with fewer than 2·``n_folds`` scores, or where a fold would leave a single class.
    """
    if len(counts) < 2 * n_folds:
        return None
    fold = np.random.default_rng(seed).permutation(len(counts)) % n_folds
    folds = [(counts.take(np.flatnonzero(fold != k)), np.flatnonzero(fold == k)) for k in range(n_folds)]
    return folds if all(rest.has_both_classes() for rest, _ in folds) else None


def uniform_mass_starts(total: FloatArray, n_bins: int) -> npt.NDArray[np.intp]:
    """Where each of up to ``n_bins`` bins of equal weight begins, for ordered values of weight ``total``.

    A value belongs to bin ⌊B·m/W⌋, m the weight up to its middle: equal values stay together and bins that
    would be empty vanish.

    >>> uniform_mass_starts(np.array([1.0, 1.0, 1.0, 9.0]), 3).tolist()
    [0, 3]
    """
    cumulative = np.cumsum(total)
    return starts_of_middles(cumulative - 0.5 * total, float(cumulative[-1]), n_bins)


def starts_of_middles(middle: FloatArray, weight: float, n_bins: int) -> npt.NDArray[np.intp]:
    """:func:`uniform_mass_starts` where the weight up to the middle of each value is known."""
    starts = np.searchsorted(middle, weight * np.arange(n_bins) / n_bins, side="left")
    starts = np.unique(np.concatenate([[0], starts]))
    return starts[starts < len(middle)]


def edges_between(values: FloatArray, starts: npt.NDArray[np.intp]) -> FloatArray:
    """Edges half-way between neighbouring bins of ascending ``values``; an edge belongs to the bin below it.

    >>> edges_between(np.array([0.1, 0.2, 0.4]), np.array([0, 2])).round(6).tolist()
    [0.3]
    """
    below, above = values[starts[1:] - 1], values[starts[1:]]
    middle = below + 0.5 * (above - below)
    return np.where(middle < above, middle, below)
