"""Tables: trees over at most three features with many leaves, one look-up a row however many entries.

What a large ensemble says is mostly what one, two or three features do together. For each table the features are
chosen by what a table of all combinations of their classes gains on other rows (half of them fit the entries, the other
half evaluates them, both ways); then a tree grows on these features alone, so that values of near multipliers share an
entry and combinations without evidence fall back to their parent. Classes bound the size of a table: bins of a number
are joined, and of a category the most frequent values stay apart.
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
from mbct.stats.logodds import logit, sigmoid
from mbct.training.folds import BinnedRows, RowNumbers
from mbct.validation import FloatArray

Features = tuple[int, ...]

_CLASSES = {1: (128, 1024), 2: (32, 256), 3: (24, 64)}
"""Classes of a number and of a category in a table of so many features."""
_SHARE_JOINED = 4  # One class in four of a category holds several values, those of near corrections
_ROWS_TRIED = 100_000  # Rows on which sets of features are compared, about
_FEATURES_TRIED = 12  # Features whose pairs are tried: those that gain most alone
_PAIRS_EXTENDED = 8  # Best pairs that are tried with a third feature
_PRIOR_CURVATURE = 3.0  # Shrinkage of entries to zero where features are chosen


@dataclass(frozen=True)
class ClassedRows:
    """Rows coded by classes instead of bins and values; ``class_of`` has the class of every code of each feature."""

    rows: BinnedRows
    class_of: tuple[npt.NDArray[np.intp], ...]

    def expanded(self, tree: CalibrationTree) -> CalibrationTree:
        """A tree that was grown on classes, for codes."""
        start, tables, filled = np.zeros_like(tree.table_start), [], 0
        for node, feature in enumerate(tree.feature.tolist()):
            start[node] = filled
            if feature >= 0:
                class_of, begin = self.class_of[feature], int(tree.table_start[node])
                tables.append(tree.table[begin : begin + int(class_of[-1]) + 1][class_of])
                filled += len(class_of)
        table = np.concatenate(tables) if tables else np.empty(0, dtype=np.int32)
        return replace(tree, table_start=start, table=table)


class TableGrowth:
    """Chooses the features of the next table and the rows, coded by classes, to grow it on."""

    def __init__(self, rows: BinnedRows, train_rows: RowNumbers, most_features: int = 3):
        self.rows = rows
        self.train_rows = train_rows
        most = min(len(rows.usable), most_features)
        step = logit(rows.label / rows.weight) - rows.log_odds
        self.classed = {n: _classed(rows, step, *_CLASSES[n]) for n in range(1, most + 1)}

    def next_table(self, log_odds: FloatArray) -> tuple[ClassedRows, Features]:
        """Rows and features of the table that gains most at these log-odds."""
        rows, q = self.rows, sigmoid(log_odds)
        tried = self.train_rows[:: -(-len(self.train_rows) // _ROWS_TRIED)]
        gradient, curvature = rows.label - rows.weight * q, rows.weight * q * (1.0 - q)

        def gain(features: Features) -> float:
            classed = self.classed[len(features)].rows
            columns = np.array(features, dtype=np.int64)
            width = np.diff(classed.offset)[columns]
            return float(_held_out_gain(classed.codes, tried, columns, width, gradient, curvature))

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            features = self._chosen(lambda tried: dict(zip(tried, pool.map(gain, tried), strict=True)))
        return self.classed[len(features)], features

    def _chosen(self, gains: Callable[[Sequence[Features]], dict[Features, float]]) -> Features:
        """Pairs of the features that gain most alone, the best of them with every third one; ties go to the first."""
        usable = [int(j) for j in self.rows.usable]
        alone = gains([(j,) for j in usable])
        tried = sorted(sorted(usable, key=lambda j: -alone[(j,)])[:_FEATURES_TRIED])
        pairs = gains(list(combinations(tried, 2))) if 2 in self.classed else {}
        found = alone | pairs
        if 3 in self.classed:
            best = sorted(pairs, key=lambda pair: -pairs[pair])[:_PAIRS_EXTENDED]
            triples = {tuple(sorted({*pair, j})) for pair in best for j in tried if j not in pair}
            found |= gains(sorted(triples))
        return max(found, key=lambda features: found[features])


@kernel
def _held_out_gain(
    codes: CodeMatrix,
    rows: RowNumbers,
    features: npt.NDArray[np.int64],
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
            entry = entry * width[t] + codes[i, features[t]]
        g[entry, r & 1] += gradient[i]
        h[entry, r & 1] += curvature[i]
    gain = 0.0
    for entry in range(len(g)):
        for half in range(2):
            step = g[entry, half] / (h[entry, half] + _PRIOR_CURVATURE)
            gain += step * g[entry, 1 - half] - 0.5 * step * step * h[entry, 1 - half]
    return gain


def _classed(rows: BinnedRows, step: FloatArray, of_numbers: int, of_categories: int) -> ClassedRows:
    """Rows with at most so many classes a feature, beside those of missing and of unseen values."""
    class_of = []
    for j, n_codes in enumerate(rows.n_codes):
        weight = np.bincount(rows.codes[:, j], rows.weight, n_codes).astype(np.float64)[:-2]
        if rows.ordered[j]:
            own = _equal_weight(weight, of_numbers)
        else:
            mean = np.bincount(rows.codes[:, j], rows.weight * step, n_codes)[:-2] / np.maximum(weight, 1e-300)
            own = _frequent_apart(weight, mean, of_categories)
        own = np.unique(own, return_inverse=True)[1]
        n_classes = int(own.max()) + 1 if len(own) else 0
        class_of.append(np.append(own, [n_classes, n_classes + 1]))
    codes = np.column_stack([own[rows.codes[:, j]] for j, own in enumerate(class_of)]).astype(rows.codes.dtype)
    offset = np.append(0, np.cumsum([own[-1] + 1 for own in class_of]))
    return ClassedRows(replace(rows, codes=np.ascontiguousarray(codes), offset=offset), tuple(class_of))


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
