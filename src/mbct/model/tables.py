"""Trees that are tables: one look-up a feature, however many entries.

A tree is a table where all inner nodes of one depth split by the same feature, each depth by another. The codes of a
feature that behave alike in every node form a class. A row then needs one link a feature: from the first feature's
class to where the next feature's classes begin, and so on, until a place in ``stops`` names the node where it stops.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix
from mbct.model.tree import STOP, CalibrationTree, IntArray
from mbct.validation import FloatArray

MOST_FEATURES = 3
_ROWS_AT_ONCE = 512
"""Rows of a block stay in the cache while every tree looks at them."""


@dataclass(frozen=True, eq=False)
class TreeTable:
    """A tree as chained look-ups.

    Start with ``base = 0``. For each feature but the last, ``base = links[d][base + classes[d][code]]``; below zero,
    the row stops at the node ``stops[~base]``. After the last feature it stops at ``stops[base + classes[-1][code]]``.
    """

    features: tuple[int, ...]
    classes: tuple[IntArray, ...]
    links: tuple[IntArray, ...]
    stops: IntArray

    @property
    def n_classes(self) -> tuple[int, ...]:
        """Number of classes of each feature."""
        return tuple(int(of_code.max()) + 1 for of_code in self.classes)


def table_of(tree: CalibrationTree, n_codes: Sequence[int]) -> TreeTable | None:
    """The tree as a table; None where it is none."""
    levels = _levels(tree)
    features = [int(tree.feature[nodes[0]]) for nodes in levels]
    if not 0 < len(levels) <= MOST_FEATURES or len(set(features)) < len(features):
        return None
    if any(np.any(tree.feature[nodes] != feature) for nodes, feature in zip(levels, features, strict=True)):
        return None
    classes, below = [], []
    for nodes, feature in zip(levels, features, strict=True):
        children = tree.table[tree.table_start[nodes][:, None] + np.arange(n_codes[feature])]
        distinct, of_code = np.unique(children, axis=1, return_inverse=True)
        classes.append(of_code.reshape(-1).astype(np.int32))
        below.append(distinct)
    links: list[IntArray] = []
    ended: list[npt.NDArray[np.int64]] = []
    place_of = np.full(tree.n_nodes, -1, np.int64)
    n_inner = below[-1].size
    for depth, (nodes, child) in enumerate(zip(levels, below, strict=True)):
        stop = np.where(child == STOP, nodes[:, None], child)
        if depth == len(levels) - 1:
            ended.insert(0, stop.reshape(-1))
            break
        following = levels[depth + 1]
        base_of = np.full(tree.n_nodes, -1, np.int64)
        base_of[following] = np.arange(len(following)) * below[depth + 1].shape[1]
        ends = (child == STOP) | (tree.feature[child] < 0)
        for node in np.unique(stop[ends]):
            if place_of[node] < 0:
                place_of[node] = n_inner
                n_inner += 1
                ended.append(np.array([node]))
        links.append(np.where(ends, ~place_of[stop], base_of[stop]).reshape(-1).astype(np.int32))
    return TreeTable(tuple(features), tuple(classes), tuple(links), np.concatenate(ended).astype(np.int32))


def _levels(tree: CalibrationTree) -> list[npt.NDArray[np.int64]]:
    """Inner nodes by depth; more than fit a table end the search."""
    inner = np.flatnonzero(tree.feature >= 0)
    if not len(inner):
        return []
    owner = inner[np.searchsorted(tree.table_start[inner], np.arange(len(tree.table)), side="right") - 1]
    parent = np.full(tree.n_nodes, -1, np.int64)
    parent[tree.table[tree.table != STOP]] = owner[tree.table != STOP]
    levels = [np.array([0])]
    while len(levels) <= MOST_FEATURES:
        below = inner[np.isin(parent[inner], levels[-1])]
        if not len(below):
            break
        levels.append(below)
    return levels


@dataclass(frozen=True, eq=False)
class TableSteps:
    """Trees that are tables, joined for a kernel.

    Of the first feature ``classes`` holds the base itself. ``plan`` has a row a tree: its first, last and middle
    feature, where the classes of each begin, their number. Bases are places in ``links`` (of a middle feature) or in
    ``values``.
    """

    plan: npt.NDArray[np.int64]
    classes: IntArray
    links: IntArray
    values: FloatArray
    product: bool

    def add_to(self, total: FloatArray, codes: CodeMatrix) -> None:
        """Multiply or add the steps of each row, in the order of the trees: what walking gives."""
        _add_steps(codes, self.plan, self.classes, self.links, self.values, self.product, total)


def table_steps(trees: Sequence[CalibrationTree], tables: Sequence[TreeTable], *, product: bool) -> TableSteps:
    """Tables and the trees they were made of, joined."""
    plan = np.zeros((len(trees), 2 * MOST_FEATURES + 1), np.int64)
    classes: list[IntArray] = []
    links: list[IntArray] = []
    values: list[FloatArray] = []
    n_classes = n_links = n_values = 0
    for row, tree, table in zip(plan, trees, tables, strict=True):
        depth = len(table.features)
        first = ~(table.classes[0] + np.int32(n_values))
        if depth > 1:
            first = _moved(table.links[0], n_values if depth == 2 else n_links, n_values)[table.classes[0]]
        if depth == MOST_FEATURES:
            links.append(_moved(table.links[1], n_values, n_values))
            n_links += len(links[-1])
        starts = n_classes + np.cumsum([0, *map(len, table.classes[:-1])])
        classes += [first, *table.classes[1:]]
        n_classes += sum(map(len, table.classes))
        # The first feature, the last and the one between them; what a table has not is never looked at.
        order = [0, depth - 1, 1 if depth == MOST_FEATURES else 0]
        row[:MOST_FEATURES] = np.array(table.features)[order]
        row[MOST_FEATURES:-1] = starts[order]
        row[-1] = depth
        values.append(tree.step[table.stops])
        n_values += len(table.stops)
    nothing = np.empty(0, np.int32)
    return TableSteps(
        plan,
        np.concatenate([nothing, *classes]),
        np.concatenate([nothing, *links]),
        np.concatenate([np.empty(0), *values]),
        product,
    )


def _moved(link: IntArray, base: int, place: int) -> IntArray:
    """Links among the joined arrays, where bases and places begin later."""
    return np.where(link < 0, link - place, link + base).astype(np.int32)


@kernel
def _add_steps(
    codes: CodeMatrix,
    plan: npt.NDArray[np.int64],
    classes: IntArray,
    links: IntArray,
    values: FloatArray,
    product: bool,
    total: FloatArray,
) -> None:
    for begin in range(0, len(codes), _ROWS_AT_ONCE):
        end = min(begin + _ROWS_AT_ONCE, len(codes))
        for t in range(len(plan)):
            a, b, c = np.uint64(plan[t, 0]), np.uint64(plan[t, 1]), np.uint64(plan[t, 2])
            first, second, third = np.uint64(plan[t, 3]), np.uint64(plan[t, 4]), np.uint64(plan[t, 5])
            three = plan[t, 6] == 3
            for row in range(begin, end):
                i = np.uint64(row)
                base = classes[first + np.uint64(codes[i, a])]
                if three:
                    base = _following(base, links, classes[third + np.uint64(codes[i, c])])
                step = values[np.uint64(_place(base, classes[second + np.uint64(codes[i, b])]))]
                total[i] = total[i] * step if product else total[i] + step


@kernel
def _place(base: int, of_code: int) -> int:
    """Where the step stands: beyond the base by the class of the last feature, or where the row ended before.

    Whether a row ends early no processor can guess, so signs are spread over bits instead of asked for.
    """
    ended = base >> 31
    return (base ^ ended) + (of_code & ~ended)


@kernel
def _following(base: int, links: IntArray, of_code: int) -> int:
    """The link of the middle feature, where the row has not ended before."""
    ended = base >> 31
    return int(links[np.uint64((base & ~ended) + (of_code & ~ended))] & ~ended) | (base & ended)


@kernel
def table_step_of_row(
    codes: npt.NDArray[np.int64],
    total: float,
    plan: npt.NDArray[np.int64],
    classes: IntArray,
    links: IntArray,
    values: FloatArray,
    product: bool,
) -> float:
    """``total`` moved by the tables; ``codes`` of one row, to which ``plan`` says where the classes begin."""
    for t in range(len(plan)):
        base = classes[plan[t, 3] + codes[plan[t, 0]]]
        if plan[t, 6] == MOST_FEATURES:
            base = _following(base, links, classes[plan[t, 5] + codes[plan[t, 2]]])
        step = values[_place(base, classes[plan[t, 4] + codes[plan[t, 1]]])]
        total = total * step if product else total + step
    return total
