"""The rules that move the most positives, found by sums of nodes: of thousands of rules few are put together."""

from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.rules import Rule, rule_of_node
from mbct.model.tree import STOP, CalibrationTree, terminal_sums
from mbct.validation import FloatArray


@dataclass(frozen=True)
class StrongestRules:
    """Rules by falling effect, how many rules there are, and the effect of each tree: the sum over its rules."""

    rules: tuple[Rule, ...]
    total: int
    effect_of_tree: FloatArray


def strongest_rules(model: CalibrationEnsemble, most: int) -> StrongestRules:
    """At most so many of the rules that ``model.rules()`` lists."""
    sums = [terminal_sums(tree) for tree in model.trees]
    effects = [_effects(model, tree, each) for tree, each in zip(model.trees, sums, strict=True)]
    number = np.repeat(np.arange(len(sums)), [tree.n_nodes for tree in model.trees])
    node = np.concatenate([np.arange(tree.n_nodes) for tree in model.trees])
    effect = np.concatenate(effects)
    met = np.flatnonzero(np.concatenate([each["count"] for each in sums]))
    ranked = met[np.lexsort((node[met], number[met], -effect[met]))]
    parents = [tree.parents for tree in model.trees]
    found = (_rule(model, t, n, sums[t], parents[t]) for t, n in zip(number[ranked], node[ranked], strict=True))
    rules = tuple(islice((rule for rule in found if rule is not None), most))
    return StrongestRules(rules, len(met), np.asarray([each.sum() for each in effects]))


def _effects(model: CalibrationEnsemble, tree: CalibrationTree, sums: dict[str, FloatArray]) -> FloatArray:
    """By how many positives each node moves the predictions of the training rows that stop there."""
    count = sums["count"]
    mean = sums["pred"] / np.where(count > 0.0, count, 1.0)
    return np.asarray(count * np.abs(model.apply_total(mean, tree.leaf_value) - mean))


def _rule(
    model: CalibrationEnsemble, number: int, node: int, sums: dict[str, FloatArray], parent: npt.NDArray[np.int64]
) -> Rule | None:
    """The rule of a node; None where no row can stop there."""
    tree = model.trees[number]
    restrictions = _restrictions(model, tree, node, parent)
    if restrictions is None:
        return None
    fallback = bool(tree.feature[node] >= 0)
    return rule_of_node(model, int(number), tree, int(node), restrictions, sums, len(tree.leaves), fallback=fallback)


def _restrictions(
    model: CalibrationEnsemble, tree: CalibrationTree, node: int, parent: npt.NDArray[np.int64]
) -> dict[int, frozenset[int]] | None:
    """Codes of each feature that lead from the root to the rows that stop at a node; None where none do."""
    path = [STOP] if tree.feature[node] >= 0 else []
    path.append(node)
    while path[-1] > 0:
        path.append(int(parent[path[-1]]))
    if path[-1] < 0:
        return None
    allowed: dict[int, frozenset[int]] = {}
    for above, below in zip(path[:0:-1], path[-2::-1], strict=True):
        feature, start = int(tree.feature[above]), int(tree.table_start[above])
        table = tree.table[start : start + model.bins[feature].n_codes]
        codes = frozenset(np.flatnonzero(table == below).tolist())
        allowed[feature] = allowed[feature] & codes if feature in allowed else codes
    return allowed if all(allowed.values()) else None
