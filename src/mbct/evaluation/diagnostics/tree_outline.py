"""A tree as an outline: what each node holds and multiplies by, and the losses around each split, replayed on rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mbct.errors import ParameterError
from mbct.model.bins import CodeMatrix
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.rules import condition
from mbct.model.tree import FitTrace, SplitRecord
from mbct.stats.probabilities import log_losses
from mbct.stats.theorem import label_rate_bound
from mbct.validation import FloatArray

MOST_VALUES = 6
"""Values of a category, or intervals of a number, that are named before the rest is only counted."""


@dataclass(frozen=True)
class TreeNode:
    """A node: the condition that leads to it, its sums before the tree, its value and the split it was given."""

    number: int
    parent: int
    depth: int
    condition: str
    rows: float
    label_rate: float
    mean_prediction: float
    multiplier: float
    bound: float
    """Theorem 1: the node's label rate lies this near to the truth."""
    children: tuple[int, ...]
    split: SplitRecord | None

    @property
    def is_leaf(self) -> bool:
        """Whether rows stop here."""
        return not self.children


@dataclass(frozen=True)
class TreeOutline:
    """The nodes of one tree, parents before children, and what its losses are."""

    nodes: tuple[TreeNode, ...]
    tree: int
    n_trees: int
    applies_to: str
    loss: str

    @property
    def root(self) -> TreeNode:
        """The node of all rows."""
        return self.nodes[0]

    @property
    def splits(self) -> tuple[SplitRecord, ...]:
        """The splits in the order in which the tree grew, where their losses are known.

        Children are numbered when they are made, level by level or the most promising first.
        """
        split = [node for node in self.nodes if node.split is not None]
        return tuple(node.split for node in sorted(split, key=lambda node: min(node.children)) if node.split)


def outline_tree(
    model: CalibrationEnsemble, trace: FitTrace | None = None, *, tree: int = 0, splits: Sequence[SplitRecord] = ()
) -> TreeOutline:
    """Outline of the ``tree``-th tree; the losses are those of ``splits``, else of the fit's own trace."""
    if not 0 <= tree < len(model.trees):
        raise ParameterError(f"tree={tree!r} does not exist: the model has {len(model.trees)} trees, counted from 0")
    chosen = model.trees[tree]
    known = {s.node: s for s in (splits or (trace.splits if trace is not None else ())) if s.tree == tree}
    n_bins = len(chosen.leaves)
    parent, depth = [-1] * chosen.n_nodes, [0] * chosen.n_nodes
    text = ["all rows"] * chosen.n_nodes
    nodes = []
    for number in range(chosen.n_nodes):
        feature = int(chosen.feature[number])
        branches = chosen.children(number, model.bins[feature].n_codes) if feature >= 0 else {}
        for child, codes in branches.items():
            parent[child], depth[child] = number, depth[number] + 1
            text[child] = condition(model.bins[feature], frozenset(codes)).shortened(MOST_VALUES)
        count, value = float(chosen.count[number]), float(chosen.leaf_value[number])
        rate = float(chosen.label[number]) / count if count else 0.0
        nodes.append(
            TreeNode(
                number,
                parent[number],
                depth[number],
                text[number],
                count,
                rate,
                float(chosen.pred[number]) / count if count else 0.0,
                value if model.link == "linear" else math.exp(value),
                float(label_rate_bound(rate, count, n_bins, model.alpha)),
                tuple(branches),
                known.get(number),
            )
        )
    applies_to = "prediction" if model.link == "linear" else "odds"
    loss = "log loss" if splits else trace.loss if trace is not None else ""
    return TreeOutline(tuple(nodes), tree, len(model.trees), applies_to, loss)


def first_grown(model: CalibrationEnsemble) -> int:
    """Number of the first tree with more than one split: those before it hold a line or effects of single values."""
    return next((i for i, tree in enumerate(model.trees) if np.count_nonzero(tree.feature >= 0) > 1), 0)


def replay_growth(
    model: CalibrationEnsemble,
    codes: CodeMatrix,
    y_prob: FloatArray,
    y_true: FloatArray,
    weight: FloatArray,
    number: int = 0,
) -> tuple[SplitRecord, ...]:
    """Log loss within each split node and over all rows, as a tree's splits are made one after another.

    Before a split the node's rows move by the node's value, after it by those of its children.
    """
    if not model.trees:
        return ()
    for earlier in model.trees[:number]:
        y_prob = model.apply_total(y_prob, earlier.leaf_value[earlier.apply(codes)])
    tree = model.trees[number]
    rows_of = {0: np.arange(len(y_prob))}
    loss = log_losses(model.apply_total(y_prob, np.full(len(y_prob), tree.leaf_value[0])), y_true)
    total, total_weight = float(np.sum(weight * loss)), float(weight.sum())
    depth = np.zeros(tree.n_nodes, dtype=np.int64)
    records = []
    children_of = {
        node: list(tree.children(node, model.bins[int(tree.feature[node])].n_codes))
        for node in np.flatnonzero(tree.feature >= 0).tolist()
    }
    # Children are numbered when they are made: the first of them tells the order of growth.
    for node, children in sorted(children_of.items(), key=lambda each: min(each[1])):
        feature = int(tree.feature[node])
        depth[children] = depth[node] + 1
        here = rows_of.pop(node, np.empty(0, dtype=np.intp))
        below = tree.table[tree.table_start[node] + codes[here, feature].astype(np.int64)]
        rows_of |= {child: here[below == child] for child in children}
        moved = tree.leaf_value[np.where(below >= 0, below, node)]
        before = float(np.sum(weight[here] * loss[here]))
        loss[here] = log_losses(model.apply_total(y_prob[here], moved), y_true[here])
        after = float(np.sum(weight[here] * loss[here]))
        total += after - before
        size = float(weight[here].sum())
        shown = size if size > 0.0 else 1.0
        name = model.bins.names[feature]
        losses = before / shown, after / shown, total / total_weight
        records.append(SplitRecord(number, node, int(depth[node]), name, size, len(children), *losses))
    return tuple(records)
