"""Tables: trees over a few features with many leaves, one look-up a row however many entries.

What a large ensemble says is mostly what a few features do together. For each table the features are chosen by what a
table of all combinations of their classes gains on other rows (half of them fit the entries, the other half evaluates
them, both ways); then a tree grows on these features alone, so that values of near multipliers share an entry and
combinations without evidence fall back to their parent. Classes bound the size of a table: bins of a number are joined,
and of a category the most frequent values stay apart. The more features a table has, the fewer classes has each.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix
from mbct.model.tree import CalibrationTree
from mbct.stats.probabilities import logit, sigmoid
from mbct.training.binned_rows import BinnedRows, RowNumbers
from mbct.validation import FloatArray

Features = tuple[int, ...]
Classes = npt.NDArray[np.intp]
"""The class of every code of a feature."""

MOST_PLACES = 1 << 16
"""Combinations of classes of one table."""
_SHARE_JOINED = 4  # One class in four of a category holds several values, those of near corrections
ROWS_TRIED = 60_000
"""Rows on which sets of features are compared, about."""
_FEATURES_TRIED = 12  # Features whose pairs are tried: those that gain most alone
_PAIRS_EXTENDED = 6  # Best pairs that are tried with a third feature
_SETS_EXTENDED = 2  # Best larger sets that are tried with one more
_PRIOR_CURVATURE = 3.0  # Shrinkage of entries to zero where features are chosen


@dataclass(frozen=True)
class ClassedRows:
    """Rows with some features alone, coded by classes instead of bins and values."""

    rows: BinnedRows
    features: Features
    class_of: tuple[Classes, ...]

    def expanded(self, tree: CalibrationTree) -> CalibrationTree:
        """A tree that was grown on classes, for codes of all features."""
        start, tables, filled = np.zeros_like(tree.table_start), [], 0
        for node, column in enumerate(tree.feature.tolist()):
            start[node] = filled
            if column >= 0:
                class_of, begin = self.class_of[column], int(tree.table_start[node])
                tables.append(tree.table[begin : begin + int(class_of[-1]) + 1][class_of])
                filled += len(class_of)
        table = np.concatenate(tables) if tables else np.empty(0, dtype=np.int32)
        feature = np.append(self.features, -1)[tree.feature].astype(np.int32)
        return replace(tree, feature=feature, table_start=start, table=table)


class TableGrowth:
    """Chooses the features of the next table and the rows, coded by classes, to grow it on."""

    def __init__(self, rows: BinnedRows, train_rows: RowNumbers, most_features: int):
        self.rows = rows
        self.train_rows = train_rows
        self.most_features = most_features
        step = logit(rows.label / rows.weight) - rows.log_odds
        n_codes = rows.n_codes
        self._weight: list[FloatArray] = []
        self._step: list[FloatArray] = []
        for j, n in enumerate(n_codes):
            for sums, weight in ((self._weight, rows.weight), (self._step, rows.weight * step)):
                sums.append(np.bincount(rows.codes[:, j], weight, n)[:-2].astype(np.float64))
        self._known: dict[tuple[int, int], Classes] = {}

    def next_table(self, log_odds: FloatArray) -> ClassedRows:
        """Rows of the table that gains most at these log-odds."""
        rows, q = self.rows, sigmoid(log_odds)
        tried = self.train_rows[:: -(-len(self.train_rows) // ROWS_TRIED)]
        gradient, curvature = rows.label - rows.weight * q, rows.weight * q * (1.0 - q)

        def gain(features: Features) -> float:
            class_of = self._classes(features)
            width = np.array([own[-1] + 1 for own in class_of])
            start = np.append(0, np.cumsum([len(own) for own in class_of]))
            columns = np.array(features, dtype=np.int64)
            joined = np.concatenate(class_of)
            return float(_held_out_gain(rows.codes, tried, columns, joined, start, width, gradient, curvature))

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            features = self._chosen(lambda tried: dict(zip(tried, pool.map(gain, tried), strict=True)))
        return self.classed(features)

    def _chosen(self, gains: Callable[[Sequence[Features]], dict[Features, float]]) -> Features:
        """Pairs of the features that gain most alone, then the best sets with one more while that gains more.

        Ties go to the first.
        """
        usable = [int(j) for j in self.rows.usable]
        alone = gains([(j,) for j in usable])
        tried = sorted(sorted(usable, key=lambda j: -alone[(j,)])[:_FEATURES_TRIED])
        last = gains(list(combinations(tried, 2))) if self.most_features > 1 else {}
        found = alone | last
        for size in range(3, min(len(tried), self.most_features) + 1):
            n_extended = _PAIRS_EXTENDED if size == 3 else _SETS_EXTENDED
            best = sorted(last, key=lambda features: -last[features])[:n_extended]
            last = gains(
                sorted({tuple(sorted({*features, j})) for features in best for j in tried if j not in features})
            )
            if max(last.values()) <= max(found.values()):
                break
            found |= last
        return max(found, key=lambda features: found[features])

    def _classes(self, features: Features) -> list[Classes]:
        """Classes of features whose combinations are not too many; beside them those of missing and unseen values."""
        sizes = [len(self._weight[j]) for j in features]
        level = _level(sizes)
        return [self._classes_of(j, min(size, level)) for j, size in zip(features, sizes, strict=True)]

    def _classes_of(self, feature: int, n_classes: int) -> Classes:
        if (feature, n_classes) not in self._known:
            weight = self._weight[feature]
            if self.rows.ordered[feature]:
                own = _equal_weight(weight, n_classes)
            else:
                own = _frequent_apart(weight, self._step[feature] / np.maximum(weight, 1e-300), n_classes)
            own = np.unique(own, return_inverse=True)[1]
            last = int(own.max()) + 1 if len(own) else 0
            self._known[feature, n_classes] = np.append(own, [last, last + 1])
        return self._known[feature, n_classes]

    def classed(self, features: Features) -> ClassedRows:
        """Rows of a table over these features."""
        rows, class_of = self.rows, self._classes(features)
        columns = [own.astype(rows.codes.dtype)[rows.codes[:, j]] for j, own in zip(features, class_of, strict=True)]
        classed = replace(
            rows,
            codes=np.ascontiguousarray(np.column_stack(columns)),
            offset=np.append(0, np.cumsum([own[-1] + 1 for own in class_of])),
            ordered=rows.ordered[list(features)],
            usable=np.arange(len(features)),
        )
        return ClassedRows(classed, features, tuple(class_of))


def _level(sizes: Sequence[int]) -> int:
    """The largest number of classes of a feature, of those with so many values, that keeps combinations few enough.

    >>> _level([500, 200, 2]), _level([4, 5])
    (146, 5)
    """
    level, largest = 1, max(sizes, default=1)
    while level < largest and np.prod([min(size, level + 1) + 1.0 for size in sizes]) <= MOST_PLACES:
        level += 1
    return level


@kernel
def _held_out_gain(
    codes: CodeMatrix,
    rows: RowNumbers,
    features: npt.NDArray[np.int64],
    class_of: Classes,
    start: npt.NDArray[np.int64],
    width: npt.NDArray[np.int64],
    gradient: FloatArray,
    curvature: FloatArray,
) -> float:
    """Gain of a table of all combinations: entries from every second row, evaluated on the others, both ways."""
    g = np.zeros((np.prod(width), 2))
    h = np.zeros((np.prod(width), 2))
    for r in range(len(rows)):
        i = rows[r]
        entry = 0
        for t in range(len(features)):
            entry = entry * width[t] + class_of[start[t] + codes[i, features[t]]]
        g[entry, r & 1] += gradient[i]
        h[entry, r & 1] += curvature[i]
    gain = 0.0
    for entry in range(len(g)):
        for half in range(2):
            step = g[entry, half] / (h[entry, half] + _PRIOR_CURVATURE)
            gain += step * g[entry, 1 - half] - 0.5 * step * step * h[entry, 1 - half]
    return gain


def _equal_weight(weight: FloatArray, n_classes: int) -> npt.NDArray[np.intp]:
    """Neighbouring codes joined to classes of about equal weight."""
    if len(weight) <= n_classes:
        return np.arange(len(weight))
    middle = (np.cumsum(weight) - weight / 2.0) / max(weight.sum(), 1e-300)
    return np.asarray(np.minimum(middle * n_classes, n_classes - 1), dtype=np.intp)


def _frequent_apart(weight: FloatArray, mean: FloatArray, n_classes: int) -> npt.NDArray[np.intp]:
    """The most frequent values each in a class of its own, the others joined by their mean correction."""
    if len(weight) <= n_classes:
        return np.arange(len(weight))
    n_joined = n_classes // _SHARE_JOINED
    order = np.argsort(-weight, kind="stable")
    frequent, others = order[: n_classes - n_joined], order[n_classes - n_joined :]
    others = others[np.argsort(mean[others], kind="stable")]
    own = np.empty(len(weight), dtype=np.intp)
    own[frequent] = np.arange(len(frequent))
    own[others] = len(frequent) + _equal_weight(weight[others], n_joined)
    return own
