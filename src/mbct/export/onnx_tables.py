"""All trees of a model in one set of arrays, in which every row takes the same number of steps."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.export.tables import run_nodes
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.tree import STOP

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class WalkTables:
    """Of node v, the next node of a row with code c is ``child[start[v] + stride[v]·c]``, with c of ``feature[v]``.

    A leaf has stride 0 and leads to itself; where a code stops at an inner node it leads to a leaf of its own, with
    the node's step. After ``depth`` steps every row has arrived.
    """

    roots: Integers
    feature: Integers
    start: Integers
    stride: Integers
    child: npt.NDArray[np.int32]
    step: npt.NDArray[np.float64]
    depth: int


def walk_tables(model: CalibrationEnsemble, used: list[int]) -> WalkTables:
    """The tables of a model; features are numbered by their place among the ``used`` ones."""
    position = {feature: i for i, feature in enumerate(used)}
    columns: dict[str, list[Any]] = {name: [] for name in ("roots", "feature", "start", "stride", "step")}
    tables: list[npt.NDArray[np.int32]] = []
    filled = depth = 0

    def add(feature: int, stride: int, step: float, table: npt.NDArray[np.int32]) -> None:
        nonlocal filled
        for name, value in (("feature", feature), ("start", filled), ("stride", stride), ("step", step)):
            columns[name].append(value)
        tables.append(table)
        filled += len(table)

    for tree in model.trees:
        nodes = run_nodes(model, tree)
        root = len(columns["step"])
        columns["roots"].append(root)
        stops = {v: root + len(nodes) + i for i, v in enumerate(v for v, n in enumerate(nodes) if STOP in n.children)}
        levels = [0] * len(nodes)
        for v, node in enumerate(nodes):
            if node.feature < 0:
                add(0, 0, node.step, np.array([root + v], dtype=np.int32))
                continue
            for child in node.children:
                if child != STOP:
                    levels[child] = max(levels[child], levels[v] + 1)
            targets = np.array([stops[v] if child == STOP else root + child for child in node.children], np.int32)
            lengths = np.diff([*node.starts, model.bins[node.feature].n_codes])
            add(position[node.feature], 1, node.step, np.repeat(targets, lengths))
            depth = max(depth, levels[v] + 1)
        for v, stop in stops.items():
            add(0, 0, nodes[v].step, np.array([stop], dtype=np.int32))
    integers = {name: np.array(columns[name], dtype=np.int64) for name in ("roots", "feature", "start", "stride")}
    return WalkTables(
        **integers, child=np.concatenate(tables), step=np.array(columns["step"], dtype=np.float64), depth=depth
    )
