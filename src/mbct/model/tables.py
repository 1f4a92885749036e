"""Trees that are tables: one look-up each, however many leaves they have.

In a tree over at most three features the codes of a feature that behave alike at every node form a class. The node
where a row stops then stands in an array, at the place ``(a · n_b + b) · n_c + c`` that the classes of its codes say.
Where many pairs (a, b) have the same stops for every c, pairs are numbered first and the array holds each of them once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix
from mbct.model.tree import CalibrationTree, IntArray, apply_tree
from mbct.validation import FloatArray

MOST_FEATURES = 3
MOST_PLACES = 1 << 22
"""Combinations of classes up to which an array is built; trees with more are masked or walked."""
_ROWS_AT_ONCE = 512  # Rows of a block stay in the cache while every tree looks at them


@dataclass(frozen=True, eq=False)
class TreeTable:
    """A tree as an array: ``classes[d][code]`` for each of its ``features``, and the node of every combination."""

    features: tuple[int, ...]
    classes: tuple[IntArray, ...]
    stops: IntArray
    pairs: IntArray | None = None
    """Of three features: the number of each pair, which then stands for ``a · n_b + b`` in the place."""

    @property
    def n_classes(self) -> tuple[int, ...]:
        """Number of classes of each feature."""
        return tuple(int(of_code.max()) + 1 for of_code in self.classes)


def table_of(tree: CalibrationTree, n_codes: Sequence[int]) -> TreeTable | None:
    """The tree as a table; None where it asks for no feature, for more than three, or is too large."""
    features = tuple(dict.fromkeys(tree.feature[tree.feature >= 0].tolist()))
    if not 0 < len(features) <= MOST_FEATURES:
        return None
    classes, one_of_class = [], []
    for feature in features:
        nodes = np.flatnonzero(tree.feature == feature)
        children = tree.table[tree.table_start[nodes][:, None] + np.arange(n_codes[feature])]
        _, one_code, of_code = np.unique(children, axis=1, return_index=True, return_inverse=True)
        classes.append(of_code.reshape(-1).astype(np.int32))
        one_of_class.append(one_code)
    sizes = tuple(map(len, one_of_class))
    if math.prod(sizes) > MOST_PLACES:
        return None
    codes = np.stack(np.meshgrid(*one_of_class, indexing="ij"), axis=-1).reshape(-1, len(features)).astype(np.uint32)
    position = np.full(max(features) + 2, -1, np.int32)
    position[list(features)] = np.arange(len(features))
    stops = apply_tree(codes, position[tree.feature], tree.table_start, tree.table)
    if len(features) == MOST_FEATURES:
        distinct, pairs = np.unique(stops.reshape(-1, sizes[-1]), axis=0, return_inverse=True)
        if 2 * (distinct.size + len(pairs)) < len(stops):
            return TreeTable(features, tuple(classes), distinct.reshape(-1), pairs.reshape(-1).astype(np.int32))
    return TreeTable(features, tuple(classes), stops)


@dataclass(frozen=True, eq=False)
class TableSteps:
    """Tables joined for a kernel, classes and pairs multiplied by what lies between their places in the array.

    ``plan`` has a row a tree: three features, where the classes of each begin, where its pairs begin (−1: it has none).
    """

    plan: npt.NDArray[np.int64]
    classes: IntArray
    pairs: IntArray
    values: FloatArray
    product: bool

    def add_to(self, total: FloatArray, codes: CodeMatrix) -> None:
        """Multiply or add the steps of each row, in the order of the trees: what walking gives."""
        _add_steps(codes, self.plan, self.classes, self.pairs, self.values, self.product, total)


def table_steps(trees: Sequence[CalibrationTree], tables: Sequence[TreeTable], *, product: bool) -> TableSteps:
    """Tables and the trees they were made of, joined."""
    plan = np.full((len(trees), 2 * MOST_FEATURES + 1), -1, np.int64)
    classes: list[IntArray] = [np.empty(0, np.int32)]
    pairs: list[IntArray] = [np.empty(0, np.int32)]
    values: list[FloatArray] = [np.empty(0)]
    n_classes = n_pairs = n_values = 0
    for row, tree, table in zip(plan, trees, tables, strict=True):
        # A feature that a table has not is its first one again, with classes that are all 0.
        lacking = MOST_FEATURES - len(table.features)
        row[:MOST_FEATURES] = [*table.features, *[table.features[0]] * lacking]
        strides = np.cumprod([1, *table.n_classes[:0:-1]])[::-1]
        of_code = [of * stride for of, stride in zip(table.classes, strides, strict=True)]
        if table.pairs is None:
            of_code[0] = of_code[0] + n_values
        else:
            of_code[0], of_code[1] = table.classes[0] * table.n_classes[1], table.classes[1]
            row[-1] = n_pairs
            pairs.append(table.pairs * np.int32(table.n_classes[2]) + np.int32(n_values))
            n_pairs += len(table.pairs)
        for d, column in enumerate([*of_code, *[np.zeros_like(table.classes[0])] * lacking]):
            row[MOST_FEATURES + d] = n_classes
            classes.append(column.astype(np.int32))
            n_classes += len(column)
        values.append(tree.leaf_value[table.stops])
        n_values += len(table.stops)
    return TableSteps(plan, np.concatenate(classes), np.concatenate(pairs), np.concatenate(values), product)


@kernel
def _add_steps(
    codes: CodeMatrix,
    plan: npt.NDArray[np.int64],
    classes: IntArray,
    pairs: IntArray,
    values: FloatArray,
    product: bool,
    total: FloatArray,
) -> None:
    """Blocks of rows, tree by tree; unsigned indices spare the check for negative ones."""
    for begin in range(0, len(codes), _ROWS_AT_ONCE):
        end = min(begin + _ROWS_AT_ONCE, len(codes))
        for t in range(len(plan)):
            a, b, c = np.uint64(plan[t, 0]), np.uint64(plan[t, 1]), np.uint64(plan[t, 2])
            first, second, third = np.uint64(plan[t, 3]), np.uint64(plan[t, 4]), np.uint64(plan[t, 5])
            first_pair, paired = np.uint64(plan[t, 6]), plan[t, 6] >= 0
            for row in range(begin, end):
                i = np.uint64(row)
                place = classes[first + np.uint64(codes[i, a])] + classes[second + np.uint64(codes[i, b])]
                if paired:
                    place = pairs[first_pair + np.uint64(place)]
                step = values[np.uint64(place + classes[third + np.uint64(codes[i, c])])]
                total[i] = total[i] * step if product else total[i] + step


@kernel
def table_step_of_row(
    codes: npt.NDArray[np.int64],
    total: float,
    plan: npt.NDArray[np.int64],
    classes: IntArray,
    pairs: IntArray,
    values: FloatArray,
    product: bool,
) -> float:
    """``total`` moved by the tables; ``codes`` of one row, to which ``plan`` says where the classes begin."""
    for t in range(len(plan)):
        place = classes[plan[t, 3] + codes[plan[t, 0]]] + classes[plan[t, 4] + codes[plan[t, 1]]]
        if plan[t, 6] >= 0:
            place = pairs[plan[t, 6] + place]
        step = values[place + classes[plan[t, 5] + codes[plan[t, 2]]]]
        total = total * step if product else total + step
    return total
