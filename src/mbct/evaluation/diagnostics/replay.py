"""The growth of a tree, replayed on rows: the losses around each split."""

import numpy as np

from mbct.model.bins import CodeMatrix
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.trace import SplitRecord
from mbct.model.tree import CalibrationTree
from mbct.stats.scores import log_losses
from mbct.validation import FloatArray


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

    Before a split the node's rows move by the node's step, after it by those of its children.
    """
    if not model.trees:
        return ()
    for earlier in model.trees[:number]:
        y_prob = model.apply_steps(y_prob, earlier.step[earlier.apply(codes)])
    tree = model.trees[number]
    node_of = np.zeros(len(y_prob), dtype=np.int32)
    loss = log_losses(model.apply_steps(y_prob, np.full(len(y_prob), tree.step[0])), y_true)
    total, total_weight = float(np.sum(weight * loss)), float(weight.sum())
    depth = np.zeros(tree.n_nodes, dtype=np.int64)
    records = []
    for node in _in_order_of_growth(tree, model.bins.n_codes):
        feature = int(tree.feature[node])
        children = list(tree.children(node, model.bins[feature].n_codes))
        depth[children] = depth[node] + 1
        here = np.flatnonzero(node_of == node)
        start = int(tree.table_start[node])
        below = tree.table[start + codes[here, feature].astype(np.int64)]
        node_of[here] = np.where(below >= 0, below, node)
        before = float(np.sum(weight[here] * loss[here]))
        loss[here] = log_losses(model.apply_steps(y_prob[here], tree.step[node_of[here]]), y_true[here])
        after = float(np.sum(weight[here] * loss[here]))
        # A row that stops at an inner node keeps its number; it must not be met again.
        node_of[here[below < 0]] = -1
        total += after - before
        size = float(weight[here].sum())
        shown = size if size > 0.0 else 1.0
        name = model.bins.names[feature]
        losses = before / shown, after / shown, total / total_weight
        records.append(SplitRecord(number, node, int(depth[node]), name, size, len(children), *losses))
    return tuple(records)


def _in_order_of_growth(tree: CalibrationTree, n_codes: tuple[int, ...]) -> list[int]:
    """Inner nodes by the number of their first child: children are numbered when they are made."""
    inner = np.flatnonzero(tree.feature >= 0).tolist()
    return sorted(inner, key=lambda node: min(tree.children(node, n_codes[int(tree.feature[node])])))
