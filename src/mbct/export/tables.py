"""A tree as runs of codes, each with its child: what Python, C and ONNX walk."""

from bisect import bisect_right
from dataclasses import dataclass

from mbct.model.conditions import outcomes, possible_codes
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.tree import STOP, CalibrationTree


@dataclass(frozen=True)
class RunNode:
    """A node: its step and, unless it is a leaf (feature −1), the first code of each run and the run's child."""

    step: float
    feature: int = -1
    starts: tuple[int, ...] = ()
    children: tuple[int, ...] = ()

    def child(self, code: int) -> int:
        """Where a code leads, STOP included."""
        return self.children[bisect_right(self.starts, code) - 1]


def run_nodes(model: CalibrationEnsemble, tree: CalibrationTree) -> list[RunNode]:
    """The nodes of a tree, numbered as in it.

    Codes that cannot arrive at a node join the run before them, so that a category of thousands of values leaves
    short lists deep in a tree.
    """
    arriving: list[set[int]] = [set() for _ in range(tree.n_nodes)]
    pending: list[tuple[int, dict[int, frozenset[int]]]] = [(0, {})]
    while pending:
        node, path = pending.pop()
        feature = int(tree.feature[node])
        if feature >= 0:
            allowed = path.get(feature) or possible_codes(model, feature)
            arriving[node] |= allowed
            for child, codes in outcomes(model, tree, node, allowed).items():
                if child != STOP:
                    pending.append((child, {**path, feature: codes}))
    return [_run_node(model, tree, node, arriving[node]) for node in range(tree.n_nodes)]


def _run_node(model: CalibrationEnsemble, tree: CalibrationTree, node: int, arriving: set[int]) -> RunNode:
    feature, step = int(tree.feature[node]), float(tree.step[node])
    if feature < 0:
        return RunNode(step)
    first = int(tree.table_start[node])
    table = tree.table[first : first + model.bins[feature].n_codes].tolist()
    starts: list[int] = []
    children: list[int] = []
    for code in sorted(arriving):
        if not children or table[code] != children[-1]:
            starts.append(code if starts else 0)
            children.append(table[code])
    return RunNode(step, feature, tuple(starts), tuple(children)) if children else RunNode(step)
