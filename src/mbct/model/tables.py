"""Trees that are tables: one look-up each, however many leaves they have.

In a tree over a few features the codes of a feature that behave alike at every node form a class. The terminal node of
a row then stands in an array, at the place ``(a · n_b + b) · n_c + c`` that the classes of its codes say. Where many
pairs (a, b) of three features have the same terminal nodes for every c, pairs are numbered first and the array holds
each once.
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

MOST_FEATURES = 8
_OF_PAIRS = 3
"""Features of a table whose pairs may be numbered."""
_MOST_PLACES, _MOST_PLACES_OF_MANY = 1 << 22, 1 << 18
"""Combinations of classes up to which an array of at most three features, or of more, is built; trees with more
combinations are masked or walked."""
N_FEATURES, PAIRS, FIRST = 0, 1, 2
"""Columns of a plan: number of features, begin of pairs, and the first of two for each feature."""
_ROWS_AT_ONCE = 512  # Rows of a block stay in the cache while every tree looks at them


@dataclass(frozen=True, eq=False)
class TreeTable:
    """A tree as an array: ``classes[d][code]`` for each of its ``features``, and the node of every combination."""

    features: tuple[int, ...]
    classes: tuple[IntArray, ...]
    terminal_nodes: IntArray
    pairs: IntArray | None = None
    """Of three features: the number of each pair, which then stands for ``a · n_b + b`` in the place."""

    @property
    def n_classes(self) -> tuple[int, ...]:
        """Number of classes of each feature."""
        return tuple(int(of_code.max()) + 1 for of_code in self.classes)


def table_of(tree: CalibrationTree, n_codes: Sequence[int]) -> TreeTable | None:
    """The tree as a table; None where it asks for no feature, for too many, or is too large."""
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
    if math.prod(sizes) > (_MOST_PLACES if len(features) <= _OF_PAIRS else _MOST_PLACES_OF_MANY):
        return None
    codes = np.stack(np.meshgrid(*one_of_class, indexing="ij"), axis=-1).reshape(-1, len(features)).astype(np.uint32)
    position = np.full(max(features) + 2, -1, np.int32)
    position[list(features)] = np.arange(len(features))
    terminal_nodes = apply_tree(codes, position[tree.feature], tree.table_start, tree.table)
    if len(features) == _OF_PAIRS:
        distinct, pairs = np.unique(terminal_nodes.reshape(-1, sizes[-1]), axis=0, return_inverse=True)
        if 2 * (distinct.size + len(pairs)) < len(terminal_nodes):
            return TreeTable(features, tuple(classes), distinct.reshape(-1), pairs.reshape(-1).astype(np.int32))
    return TreeTable(features, tuple(classes), terminal_nodes)


@dataclass(frozen=True, eq=False)
class TableStack:
    """Tables joined for a kernel, classes and pairs multiplied by what lies between their places in the array.

    ``plan`` has a row a tree: the number of its features, where its pairs begin (−1: it has none), then the number of
    each feature and where its classes begin.
    """

    plan: npt.NDArray[np.int64]
    classes: IntArray
    pairs: IntArray
    values: FloatArray
    product: bool

    def add_to(self, total: FloatArray, codes: CodeMatrix) -> None:
        """Multiply or add the leaf values of each row, in the order of the trees: what walking gives."""
        _add_leaf_values(codes, self.plan, self.classes, self.pairs, self.values, self.product, total)


def stack_tables(trees: Sequence[CalibrationTree], tables: Sequence[TreeTable], *, product: bool) -> TableStack:
    """Tables and the trees they were made of, joined."""
    most = max((len(table.features) for table in tables), default=0)
    plan = np.full((len(trees), FIRST + 2 * most), -1, np.int64)
    classes: list[IntArray] = [np.empty(0, np.int32)]
    pairs: list[IntArray] = [np.empty(0, np.int32)]
    values: list[FloatArray] = [np.empty(0)]
    n_classes = n_pairs = n_values = 0
    for row, tree, table in zip(plan, trees, tables, strict=True):
        row[N_FEATURES] = len(table.features)
        strides = np.cumprod([1, *table.n_classes[:0:-1]])[::-1]
        of_code = [of * stride for of, stride in zip(table.classes, strides, strict=True)]
        if table.pairs is None:
            of_code[0] = of_code[0] + n_values
        else:
            of_code[0], of_code[1] = table.classes[0] * table.n_classes[1], table.classes[1]
            row[PAIRS] = n_pairs
            pairs.append(table.pairs * np.int32(table.n_classes[2]) + np.int32(n_values))
            n_pairs += len(table.pairs)
        for d, (feature, column) in enumerate(zip(table.features, of_code, strict=True)):
            row[FIRST + 2 * d : FIRST + 2 * d + 2] = feature, n_classes
            classes.append(column.astype(np.int32))
            n_classes += len(column)
        values.append(tree.leaf_value[table.terminal_nodes])
        n_values += len(table.terminal_nodes)
    return TableStack(plan, np.concatenate(classes), np.concatenate(pairs), np.concatenate(values), product)


@kernel
def _add_leaf_values(
    codes: CodeMatrix,
    plan: npt.NDArray[np.int64],
    classes: IntArray,
    pairs: IntArray,
    values: FloatArray,
    product: bool,
    total: FloatArray,
) -> None:
    """Blocks of rows, tree by tree and feature by feature; unsigned indices spare the check for negative ones."""
    place = np.empty(_ROWS_AT_ONCE, np.int64)
    for begin in range(0, len(codes), _ROWS_AT_ONCE):
        n = min(_ROWS_AT_ONCE, len(codes) - begin)
        for t in range(len(plan)):
            place[:n] = 0
            for d in range(plan[t, N_FEATURES]):
                if d == 2 and plan[t, PAIRS] >= 0:
                    first_pair = np.uint64(plan[t, PAIRS])
                    for k in range(n):
                        place[k] = pairs[first_pair + np.uint64(place[k])]
                column, first = np.uint64(plan[t, FIRST + 2 * d]), np.uint64(plan[t, FIRST + 2 * d + 1])
                for k in range(n):
                    place[k] += classes[first + np.uint64(codes[np.uint64(begin + k), column])]
            for k in range(n):
                value = values[np.uint64(place[k])]
                total[begin + k] = total[begin + k] * value if product else total[begin + k] + value
