"""The frozen ensemble: bins, trees and the link by which their leaf values move a prediction.

========= ================================ ============================================
link      calibrated prediction            a leaf value is
========= ================================ ============================================
linear    clip(p · Π k_b, 0, 1)            the paper's multiplier k_b of the prediction
odds      σ(logit(p) + Σ s_b)              the log of a multiplier of the odds
========= ================================ ============================================

Leaf values of many rows are added up by masks: the words of all trees (:mod:`mbct.model.tree`) stand side by side, so a
row costs one AND a feature and tree and no branch depends on the data, which is many times faster than walking. Trees
with many leaves over few features are tables, others are walked.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from mbct.errors import ParameterError
from mbct.jit import kernel
from mbct.model.bins import CodeMatrix, FeatureBins, code_offsets
from mbct.model.intervals import RowIntervals, bin_tree
from mbct.model.rules import Rule, rules, to_text
from mbct.model.tables import TableStack, TreeTable, stack_tables, table_of
from mbct.model.tree import (
    DE_BRUIJN,
    HASH_OF_BIT,
    HASH_SHIFT,
    WORD,
    CalibrationTree,
    n_rules,
    terminal_nodes_of_tree,
    words_of_tree,
)
from mbct.stats.probabilities import logit, sigmoid
from mbct.validation import FloatArray

Link = Literal["linear", "odds"]
WordArray = npt.NDArray[np.unsignedinteger[Any]]

_MOST_WORDS = 4  # Words a tree takes on average up to which masks beat walking
_WORTH_COMPILING = 2_000  # Rows from which on compiling the trees costs less than walking them
_ROWS_AT_ONCE = 1 << 16
"""Rows of one task of a thread: what lies between the leaf values and the probabilities stays in the cache."""
_ROWS_OF_TASK = 1 << 14  # Rows of which a thread adds up trees that are used once
_ROWS_OF_BLOCK, _GROUPS_AT_ONCE = 256, 64
"""Rows of a block meet the words of a block of trees while those lie in the cache."""
MOST_BYTES = 256 * 2**20
"""Above this size the words would not repay their memory."""
_SMALLEST_MULTIPLIER = 1e-12  # Below it a multiplier counts as this much


@dataclass(frozen=True, eq=False)
class WalkedTrees:
    """Trees that are walked node by node."""

    trees: tuple[CalibrationTree, ...]
    product: bool

    def add_to(self, total: FloatArray, codes: CodeMatrix) -> None:
        """Multiply or add the leaf values of each row."""
        for tree in self.trees:
            (np.multiply if self.product else np.add)(total, tree.leaf_value[tree.apply(codes)], out=total)


@dataclass(frozen=True, eq=False)
class LeafMasks:
    """Trees as ``words[first_row[j] + code, group]``, and ``leaf_values[group, hash of the bit]`` of terminal nodes."""

    words: WordArray
    first_row: npt.NDArray[np.int64]
    leaf_values: FloatArray
    product: bool

    def add_to(self, total: FloatArray, codes: CodeMatrix) -> None:
        """Multiply ("linear") or add ("odds") the leaf values of each row, in the order of walking."""
        _add_leaf_values(codes, self.first_row, self.words, self.leaf_values, self.product, total)


SummedTrees = WalkedTrees | LeafMasks | TableStack
"""Some consecutive trees of an ensemble, whose leaf values ``add_to`` multiplies or adds in their order."""


def masks_of_trees(
    trees: Sequence[CalibrationTree], codes_of: Sequence[int], *, product: bool, most_bytes: int = MOST_BYTES
) -> LeafMasks | None:
    """The masks of trees whose features have so many codes each; None where they would need too much memory."""
    n_codes = np.array(codes_of, dtype=np.int64)
    first_row = code_offsets(n_codes)
    terminal_nodes = [terminal_nodes_of_tree(tree.feature, tree.table_start, tree.table, n_codes) for tree in trees]
    n_groups = sum(-(-len(nodes) // WORD) for nodes in terminal_nodes)
    # Two types alone: each is compiled once, and a model swapped in should find its kernel ready.
    word_type = np.dtype(np.uint32 if max(map(len, terminal_nodes), default=0) <= 32 else np.uint64)
    if int(first_row[-1]) * n_groups * word_type.itemsize > most_bytes:
        return None
    words = np.empty((int(first_row[-1]), n_groups), word_type)
    leaf_values = np.zeros((n_groups, WORD))
    group = 0
    for tree, nodes in zip(trees, terminal_nodes, strict=True):
        for begin in range(0, len(nodes), WORD):
            some = nodes[begin : begin + WORD]
            words[:, group] = words_of_tree(tree.feature, tree.table_start, tree.table, n_codes, first_row, some)
            leaf_values[group, HASH_OF_BIT[: len(some)]] = tree.leaf_value[some]
            group += 1
    return LeafMasks(words, first_row[:-1].copy(), leaf_values, product)


def large_table(tree: CalibrationTree, n_codes: Sequence[int]) -> TreeTable | None:
    """The tree as a table, unless it fits one word of masks, which are as fast and smaller."""
    return table_of(tree, n_codes) if len(tree.leaves) > WORD else None


def compile_trees(
    trees: Sequence[CalibrationTree], n_codes: Sequence[int], *, product: bool
) -> tuple[SummedTrees, ...]:
    """Runs of trees of one kind, in their order: results are those of walking, to the bit."""
    tables = [large_table(tree, n_codes) for tree in trees]
    others = [tree for tree, table in zip(trees, tables, strict=True) if table is None]
    masked = sum(-(-len(tree.leaves) // WORD) for tree in others) <= _MOST_WORDS * len(others)
    compiled: list[SummedTrees] = []
    for is_table, group in groupby(zip(trees, tables, strict=True), key=lambda pair: pair[1] is not None):
        run, found = zip(*group, strict=True)
        if is_table:
            compiled.append(stack_tables(run, [table for table in found if table is not None], product=product))
            continue
        masks = masks_of_trees(run, n_codes, product=product) if masked else None
        few_words = masks is not None and len(masks.leaf_values) <= _MOST_WORDS * len(run)
        compiled.append(masks if masks is not None and few_words else WalkedTrees(run, product))
    return tuple(compiled)


def sum_trees(trees: Sequence[CalibrationTree], codes: CodeMatrix, codes_of: Sequence[int]) -> FloatArray:
    """Sum of the leaf values of coded rows over trees, added up in their order."""
    masks = masks_of_trees(trees, codes_of, product=False)
    summed: SummedTrees = WalkedTrees(tuple(trees), product=False) if masks is None else masks
    total = np.zeros(len(codes))
    parts = [slice(begin, begin + _ROWS_OF_TASK) for begin in range(0, len(codes), _ROWS_OF_TASK)]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(lambda part: summed.add_to(total[part], codes[part]), parts))
    return total


@dataclass(frozen=True, eq=False)
class CalibrationEnsemble:
    """What a fitted MBCT is: plain data, JSON both ways.

    ``score_column`` names the prediction's column, which is also the first of the ``bins``; ``alpha`` is the level of
    Theorem 1's bound on every bin; ``intervals`` are there once held-out rows have certified the model.
    """

    score_column: str
    link: Link
    bins: FeatureBins
    trees: tuple[CalibrationTree, ...]
    alpha: float = 0.05
    intervals: RowIntervals | None = None

    @property
    def n_rules(self) -> int:
        """Number of rules that training rows met, over all trees: what :meth:`rules` lists."""
        return sum(map(n_rules, self.trees))

    def tree_total(self, codes: CodeMatrix) -> FloatArray:
        """Product of the multipliers ("linear") or sum of the leaf values ("odds") of each row, in the trees' order."""
        return self.compiled_total(codes) if len(codes) >= _WORTH_COMPILING else self.walked_total(codes)

    def compiled_total(self, codes: CodeMatrix) -> FloatArray:
        """What :meth:`tree_total` returns, by the compiled trees."""
        return self._total(self.compiled, codes)

    def walked_total(self, codes: CodeMatrix) -> FloatArray:
        """What :meth:`tree_total` returns, by walking every tree."""
        return self._total((WalkedTrees(self.trees, self.link == "linear"),), codes)

    def _total(self, parts: Sequence[SummedTrees], codes: CodeMatrix) -> FloatArray:
        total = np.full(len(codes), 1.0 if self.link == "linear" else 0.0)
        for part in parts:
            part.add_to(total, codes)
        return total

    @cached_property
    def compiled(self) -> tuple[SummedTrees, ...]:
        """The trees as look-ups and masks, where these are faster than walking."""
        return compile_trees(self.trees, self.bins.n_codes, product=self.link == "linear")

    def calibrate_codes(self, codes: CodeMatrix, y_prob: FloatArray, n_threads: int | None = None) -> FloatArray:
        """Calibrated probabilities of coded rows; without trees the predictions themselves.

        ``n_threads`` None uses every processor; the result does not depend on it.
        """
        if not self.trees:
            return y_prob.copy()
        if len(codes) <= _ROWS_AT_ONCE:
            return self.apply_total(y_prob, self.tree_total(codes))
        calibrated = np.empty(len(codes))
        self.compiled  # noqa: B018 - compiled once, before the threads ask for it

        def calibrate_part(begin: int) -> None:
            part = slice(begin, begin + _ROWS_AT_ONCE)
            calibrated[part] = self.apply_total(y_prob[part], self.tree_total(codes[part]))

        with ThreadPoolExecutor(n_threads or os.cpu_count() or 1) as pool:
            list(pool.map(calibrate_part, range(0, len(codes), _ROWS_AT_ONCE)))
        return calibrated

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "compiled"}

    def apply_total(self, y_prob: FloatArray, tree_total: FloatArray) -> FloatArray:
        """Move predictions by the total of their trees."""
        if self.link == "linear":
            return np.clip(y_prob * tree_total, 0.0, 1.0)
        return sigmoid(logit(y_prob) + tree_total)

    def rules(self) -> Iterator[Rule]:
        """If-then rules of all trees; those of one tree exclude each other and cover every training row."""
        return rules(self)

    def to_text(self) -> str:
        """The trees as indented text."""
        return to_text(self)

    @cached_property
    def bin_tree(self) -> CalibrationTree | None:
        """The tree whose leaves are the bins of intervals; None where all rows are one bin."""
        return bin_tree(self.trees, self.link)

    def interval_of(self, codes: CodeMatrix, calibrated: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Both ends of the interval of coded rows with these calibrated probabilities."""
        if self.intervals is None:
            raise ParameterError(
                "the model has no intervals: fit with certify=0.2, or certify it on rows that it has not seen "
                "(model.attach(certify(model, rows)), mbct certify)"
            )
        tree = self.bin_tree
        node = np.zeros(len(codes), dtype=np.int32) if tree is None else tree.apply(codes)
        return self.intervals.of_rows(node, calibrated)

    def with_trees(self, trees: tuple[CalibrationTree, ...]) -> Self:
        """The same ensemble with other trees, which no intervals are known of."""
        return replace(self, trees=trees, intervals=None)

    def with_intervals(self, intervals: RowIntervals | None) -> Self:
        """The same ensemble with intervals of rows, which must have bands for every node of the tree of bins."""
        n_nodes = 1 if self.bin_tree is None else self.bin_tree.n_nodes
        if intervals is not None and len(intervals.start) != n_nodes + 1:
            raise ParameterError(f"intervals of {len(intervals.start) - 1} nodes do not fit a tree of {n_nodes}")
        return replace(self, intervals=intervals)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        n_codes = self.bins.n_codes
        return {
            "score_column": self.score_column,
            "link": self.link,
            "alpha": self.alpha,
            "features": self.bins.to_list(),
            "trees": [tree.to_dict(n_codes) for tree in self.trees],
            **({} if self.intervals is None else {"intervals": self.intervals.to_dict()}),
        }


def feature_shares(model: CalibrationEnsemble) -> FloatArray:
    """Share of each feature, in the order of the model's bins: Σ rows·(move of child − move of parent)² of its splits.

    A move is what a node adds to the logarithm of the prediction (link "linear") or of its odds ("odds"), and the rows
    are those of training. All shares are 0 where the model has no split.
    """
    total = np.zeros(len(model.bins))
    for tree in model.trees:
        move = np.log(np.maximum(tree.leaf_value, _SMALLEST_MULTIPLIER)) if model.link == "linear" else tree.leaf_value
        for node in np.flatnonzero(tree.feature >= 0).tolist():
            children = tree.child_numbers(node)
            total[tree.feature[node]] += np.sum(tree.count[children] * (move[children] - move[node]) ** 2)
    whole = float(total.sum())
    return total / whole if whole > 0.0 else total


@kernel
def _add_leaf_values(
    codes: CodeMatrix,
    first_row: npt.NDArray[np.int64],
    words: WordArray,
    leaf_values: FloatArray,
    product: bool,
    total: FloatArray,
) -> None:
    """Blocks of rows by blocks of groups; unsigned indices spare the check for negative ones."""
    n_rows, n_features = codes.shape
    n_groups = words.shape[1]
    reachable = np.empty(_GROUPS_AT_ONCE, words.dtype)
    for begin in range(0, n_rows, _ROWS_OF_BLOCK):
        end = min(begin + _ROWS_OF_BLOCK, n_rows)
        for first in range(0, n_groups, _GROUPS_AT_ONCE):
            width = min(_GROUPS_AT_ONCE, n_groups - first)
            for i in range(begin, end):
                _reach(codes, i, n_features, first_row, words, first, width, reachable)
                result = total[i]
                for g in range(width):
                    left = np.uint64(reachable[g])
                    if left != 0:
                        bit = (left * np.uint64(DE_BRUIJN)) >> np.uint64(HASH_SHIFT)
                        value = leaf_values[np.uint64(first + g), bit]
                        result = result * value if product else result + value
                total[i] = result


@kernel
def _reach(
    codes: CodeMatrix,
    i: int,
    n_features: int,
    first_row: npt.NDArray[np.int64],
    words: WordArray,
    first: int,
    width: int,
    reachable: WordArray,
) -> None:
    """The words of a row's codes joined by AND."""
    row = words[first_row[0] + codes[i, 0], first : first + width]
    for g in range(width):
        reachable[g] = row[g]
    for j in range(1, n_features):
        row = words[first_row[j] + codes[i, j], first : first + width]
        for g in range(width):
            reachable[g] &= row[g]
