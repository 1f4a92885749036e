"""The frozen tree: flat arrays that know nothing of how they were grown, and beside it a record of how it grew.

Node 0 is the root. An inner node looks a row's code up in its table, which names the child, or −1 where the row stops:
a value that no training row had at this node keeps the node's own value.

Where a row stops is found by walking, or by words. Number the terminal nodes. Every code of every feature gets a word
with one bit a terminal node: set where the code leaves that node reachable. The bitwise AND of the words of a row's
codes leaves exactly one bit, its node. A tree with more than 64 terminal nodes takes several words.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from mbct.jit import kernel
from mbct.model.bins import CodeMatrix
from mbct.stats.probabilities import EPSILON, probability_of
from mbct.validation import FloatArray

IntArray = npt.NDArray[np.int32]
STOP = -1
NODE_SUMS = ("count", "label", "pred")
WORD = 64
DE_BRUIJN = 0x0218A392CD3D5DBF
"""Multiplied by a single bit, the top six bits of the product are different for each of the 64 bits."""
HASH_SHIFT = 58
HASH_OF_BIT = np.array([((DE_BRUIJN << bit) & (2**WORD - 1)) >> HASH_SHIFT for bit in range(WORD)])
_DIGITS = 9
"""Leaf values keep nine significant digits: more than any sample supports, fewer than the noise of summation order."""
_OFF_THE_TIE = 1.0 + 1e-11
_ROUNDING = 1e-6  # Share of a node's rows below which what is left of rounded sums is none


@dataclass(frozen=True, eq=False)
class CalibrationTree:
    """``feature`` (−1 in a leaf), ``table`` slices that map a code to a child, and each node's value and sums.

    ``leaf_value`` is the multiplier k_b of the prediction (link "linear") or what is added to its log-odds ("odds").
    ``count``, ``label`` and ``pred`` are the node's sums before the tree was applied.
    """

    feature: IntArray
    table_start: npt.NDArray[np.int64]
    table: IntArray
    leaf_value: FloatArray
    count: FloatArray
    label: FloatArray
    pred: FloatArray

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.feature)

    @property
    def leaves(self) -> IntArray:
        """Numbers of the nodes without children."""
        return np.flatnonzero(self.feature < 0).astype(np.int32)

    @property
    def parents(self) -> npt.NDArray[np.int64]:
        """Parent of each node; −1 for the root."""
        inner = np.flatnonzero(self.feature >= 0)
        parent = np.full(self.n_nodes, -1, np.int64)
        if len(inner):
            owner = inner[np.searchsorted(self.table_start[inner], np.arange(len(self.table)), side="right") - 1]
            parent[self.table[self.table != STOP]] = owner[self.table != STOP]
        return parent

    def child_numbers(self, node: int) -> IntArray:
        """Numbers of a node's children; none for a leaf."""
        if self.feature[node] < 0:
            return np.empty(0, dtype=np.int32)
        later = self.table_start[node + 1 :]
        inner = later[self.feature[node + 1 :] >= 0]
        end = int(inner[0]) if len(inner) else len(self.table)
        children = np.unique(self.table[self.table_start[node] : end])
        return np.asarray(children[children != STOP])

    def children(self, node: int, n_codes: int) -> dict[int, list[int]]:
        """Children of an inner node, each with the codes that lead to it, in the order of their numbers."""
        start = int(self.table_start[node])
        found: dict[int, list[int]] = {}
        for code, child in enumerate(self.table[start : start + n_codes].tolist()):
            if child != STOP:
                found.setdefault(child, []).append(code)
        return dict(sorted(found.items()))

    def apply(self, codes: CodeMatrix) -> IntArray:
        """Number of the terminal node of each row."""
        return apply_tree(codes, self.feature, self.table_start, self.table)

    def rescaled(self, factor: float) -> Self:
        """The tree with every value multiplied by ``factor``."""
        return replace(self, leaf_value=rounded(self.leaf_value * factor))

    def shifted(self, constant: float) -> Self:
        """The tree with ``constant`` added to every value."""
        return replace(self, leaf_value=rounded(self.leaf_value + constant))

    def to_dict(self, n_codes: tuple[int, ...]) -> dict[str, Any]:
        """Plain JSON: columns of the nodes, and for each inner node its children with runs of codes."""
        branches: list[list[list[Any]] | None] = []
        for node in range(self.n_nodes):
            feature = int(self.feature[node])
            if feature < 0:
                branches.append(None)
            else:
                found = self.children(node, n_codes[feature])
                branches.append([[child, runs(codes)] for child, codes in found.items()])
        return {
            "feature": self.feature.tolist(),
            "children": branches,
            "leaf_value": self.leaf_value.tolist(),
            **{name: getattr(self, name).tolist() for name in NODE_SUMS},
        }


def terminal_sums(tree: CalibrationTree) -> dict[str, FloatArray]:
    """Count, label and prediction of the training rows that stop at each node: all of a leaf's, of others the rest.

    Sums are rounded, so a rest below a millionth of the node is none.
    """
    parent = tree.parents
    has_parent = parent >= 0
    total = {name: getattr(tree, name) for name in NODE_SUMS}
    left = {
        name: values - np.bincount(parent[has_parent], values[has_parent], minlength=tree.n_nodes)
        for name, values in total.items()
    }
    some = (tree.feature < 0) | (left["count"] > _ROUNDING * total["count"])
    left["label"] = np.minimum(left["label"], left["count"])
    return {name: np.where(some, np.maximum(values, 0.0), 0.0) for name, values in left.items()}


def n_rules(tree: CalibrationTree) -> int:
    """Number of rules of a tree that training rows met."""
    return int(np.count_nonzero(terminal_sums(tree)["count"]))


@kernel
def terminal_node_of_row(
    codes: CodeMatrix, i: int, feature: IntArray, table_start: npt.NDArray[np.int64], table: IntArray
) -> int:
    """Number of the terminal node of row ``i``."""
    node = 0
    while feature[node] >= 0:
        child = table[table_start[node] + codes[i, feature[node]]]
        if child < 0:
            break
        node = child
    return node


@kernel
def apply_tree(codes: CodeMatrix, feature: IntArray, table_start: npt.NDArray[np.int64], table: IntArray) -> IntArray:
    """Walk every row down the tree."""
    terminal_node = np.empty(len(codes), np.int32)
    for i in range(len(codes)):
        terminal_node[i] = terminal_node_of_row(codes, i, feature, table_start, table)
    return terminal_node


def rounded(values: FloatArray) -> FloatArray:
    """Values to nine significant digits, so that summation order cannot reach a model's bytes.

    Sums of predictions with few decimals often end exactly between two such values; all that differ from there by less
    than 1e-11 go away from zero.

    >>> rounded(np.array([1.00000000012345, 0.0, -2e-20])).tolist()
    [1.0, 0.0, -2e-20]
    """
    listed = (np.atleast_1d(values) * _OFF_THE_TIE).tolist()
    # One text of all numbers takes half the time of one text each.
    return np.array((f" %.{_DIGITS}g" * len(listed) % tuple(listed)).split(), dtype=np.float64)


def runs(codes: Sequence[int]) -> list[list[int]]:
    """Rising codes as [first, last] runs of neighbours.

    >>> runs([0, 1, 2, 5])
    [[0, 2], [5, 5]]
    """
    found: list[list[int]] = []
    for code in codes:
        if found and code == found[-1][1] + 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


@kernel
def terminal_nodes_of_tree(
    feature: IntArray, table_start: npt.NDArray[np.int64], table: IntArray, n_codes: npt.NDArray[np.int64]
) -> IntArray:
    """Leaves, and inner nodes with a code that has no child."""
    found = np.empty(len(feature), np.int32)
    n_found = 0
    for node in range(len(feature)):
        is_terminal = feature[node] < 0
        if not is_terminal:
            for code in range(n_codes[feature[node]]):
                if table[table_start[node] + code] == STOP:
                    is_terminal = True
                    break
        if is_terminal:
            found[n_found] = node
            n_found += 1
    return found[:n_found].copy()


@kernel
def words_of_tree(
    feature: IntArray,
    table_start: npt.NDArray[np.int64],
    table: IntArray,
    n_codes: npt.NDArray[np.int64],
    first_row: npt.NDArray[np.int64],
    terminal_nodes: IntArray,
) -> npt.NDArray[np.uint64]:
    """For every code, the bits of those of ``terminal_nodes``, 64 at most, that a row with this code can still reach.

    Start from all of them; each inner node then takes away, code by code, those on its other branches.
    """
    own = np.zeros(len(feature), np.uint64)
    for bit in range(len(terminal_nodes)):
        own[terminal_nodes[bit]] = np.uint64(1) << np.uint64(bit)
    below = own.copy()
    for node in range(len(feature) - 1, -1, -1):
        if feature[node] >= 0:
            for code in range(n_codes[feature[node]]):
                child = table[table_start[node] + code]
                if child != STOP:
                    below[node] |= below[child]
    words = np.full(first_row[-1], below[0])
    for node in range(len(feature)):
        if feature[node] >= 0:
            first = first_row[feature[node]]
            for code in range(n_codes[feature[node]]):
                child = table[table_start[node] + code]
                reached = own[node] if child == STOP else below[child]
                words[first + code] &= ~(below[node] & ~reached)
    return words


@kernel
def terminal_nodes_of_rows(
    codes: CodeMatrix,
    rows: IntArray,
    feature: IntArray,
    table_start: npt.NDArray[np.int64],
    table: IntArray,
    offset: npt.NDArray[np.int64],
) -> IntArray:
    """Terminal node of each of ``rows``; ``offset`` numbers the first code of each feature.

    Unsigned indices spare the check for negative ones.
    """
    n_codes = offset[1:] - offset[:-1]
    terminal_nodes = terminal_nodes_of_tree(feature, table_start, table, n_codes)
    used = np.unique(feature[feature >= 0])
    column = used.astype(np.uint64)
    base = offset[used].astype(np.uint64)
    node_of_hash = np.zeros(WORD, np.int32)
    terminal_node = np.empty(len(rows), np.int32)
    for begin in range(0, len(terminal_nodes), WORD):
        some = terminal_nodes[begin : begin + WORD]
        words = words_of_tree(feature, table_start, table, n_codes, offset, some)
        everything = words[0] | ~words[0]
        for bit in range(len(some)):
            node_of_hash[HASH_OF_BIT[bit]] = some[bit]
        for t in range(len(rows)):
            i = np.uint64(rows[t])
            left = everything
            for u in range(len(column)):
                left &= words[base[u] + np.uint64(codes[i, column[u]])]
            if len(column) == 0:
                left = np.uint64(1)
            if left != 0:
                terminal_node[t] = node_of_hash[(left * np.uint64(DE_BRUIJN)) >> np.uint64(HASH_SHIFT)]
    return terminal_node


@kernel
def moved(score: float, tree_total: float, product: bool) -> float:
    """One prediction moved by the total of its trees: clip(p·k, 0, 1) or σ(logit(p) + s)."""
    if product:
        return min(max(score * tree_total, 0.0), 1.0)
    held = min(max(score, EPSILON), 1.0 - EPSILON)
    return probability_of(np.log(held) - np.log1p(-held) + tree_total)


@dataclass(frozen=True)
class _Record:
    """Losses keep nine significant digits, so that the order of summation cannot reach a model's bytes."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, float):
                object.__setattr__(self, name, float(f"{value:.9g}"))


@dataclass(frozen=True)
class SplitRecord(_Record):
    """One split: where, by what, and the losses around it."""

    tree: int
    node: int
    depth: int
    feature: str
    count: float
    n_children: int
    node_loss_before: float
    node_loss_after: float
    ensemble_loss: float


@dataclass(frozen=True)
class RoundRecord(_Record):
    """One boosting round: the loss over all data before and after, and whether the tree was kept."""

    tree: int
    loss_before: float
    loss_after: float
    kept: bool


@dataclass(frozen=True)
class FitTrace:
    """All splits and rounds of a fit, in the order in which they happened."""

    loss: str
    splits: tuple[SplitRecord, ...] = ()
    rounds: tuple[RoundRecord, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "loss": self.loss,
            "splits": [vars(record) for record in self.splits],
            "rounds": [vars(record) for record in self.rounds],
        }
