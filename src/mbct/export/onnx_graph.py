"""What an ONNX graph is built from: a thin builder, and all trees in one set of arrays.

Nodes are named by their outputs, constants become initializers once. In the arrays every row takes the same number of
steps.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.tree import STOP

Integers = npt.NDArray[np.int64]
_OPSET = 18
_ML_OPSET = 3
_IR_VERSION = 8
"""The oldest versions that have all operators used here on doubles, so that older runtimes take the file too."""


class Graph:
    """A graph under construction, over inputs of shape [rows]."""

    def __init__(self) -> None:
        from onnx import TensorProto, helper, numpy_helper

        self._proto, self._helper, self._numpy = TensorProto, helper, numpy_helper
        self.INT64: int = TensorProto.INT64
        self._inputs: list[Any] = []
        self._nodes: list[Any] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Any] = {}

    def input(self, name: str, *, text: bool) -> str:
        """Declare an input of strings or doubles."""
        kind = self._proto.STRING if text else self._proto.DOUBLE
        self._inputs.append(self._helper.make_tensor_value_info(name, kind, ["rows"]))
        return name

    def node(self, operator: str, *inputs: Any, domain: str = "", **attributes: Any) -> str:
        """Append a node over outputs of others, by name, and constants; returns the name of its only output."""
        output = f"node:{len(self._nodes)}:{operator}"
        names = [each if isinstance(each, str) else self._constant(np.asarray(each)) for each in inputs]
        self._nodes.append(self._helper.make_node(operator, names, [output], domain=domain, **attributes))
        return output

    def _constant(self, values: npt.NDArray[Any]) -> str:
        """Name of a constant; equal constants are stored once."""
        key = (values.dtype.str, values.shape, values.tobytes())
        if key not in self._constants:
            self._constants[key] = self._numpy.from_array(values, f"constant:{len(self._constants)}")
        return str(self._constants[key].name)

    def finished(self, result: str, output: str, shape: tuple[str | int, ...] = ("rows",)) -> bytes:
        """Serialise the graph with ``result`` as its only output, called ``output``."""
        from onnx import checker

        self._nodes.append(self._helper.make_node("Identity", [result], [output]))
        described = self._helper.make_tensor_value_info(output, self._proto.DOUBLE, list(shape))
        graph = self._helper.make_graph(
            self._nodes, "calibration", self._inputs, [described], list(self._constants.values())
        )
        opsets = [self._helper.make_opsetid("", _OPSET), self._helper.make_opsetid("ai.onnx.ml", _ML_OPSET)]
        model = self._helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="mbct")
        checker.check_model(model)
        return bytes(model.SerializeToString(deterministic=True))


@dataclass(frozen=True)
class WalkTables:
    """Of node v, the next node of a row with code c is ``child[start[v] + stride[v]·c]``, with c of ``feature[v]``.

    A leaf has stride 0 and leads to itself, as does an inner node for codes that stop there. After ``depth`` steps
    every row has arrived.
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
    position = np.zeros(len(model.bins) + 1, dtype=np.int64)  # A leaf's feature, −1, is the last of these
    position[used] = np.arange(len(used))
    roots, starts, children = [], [], []
    n_nodes = n_entries = depth = 0
    for tree in model.trees:
        inner, leaves = np.flatnonzero(tree.feature >= 0), tree.leaves
        owner = np.repeat(inner, np.array(model.bins.n_codes)[tree.feature[inner]])
        child = np.concatenate([np.where(tree.table == STOP, owner, tree.table), leaves])
        start = tree.table_start.copy()
        start[leaves] = len(tree.table) + np.arange(len(leaves))
        level = [0]
        for parent in tree.parents[1:].tolist():
            level.append(level[parent] + 1)
        roots.append(n_nodes)
        starts.append(start + n_entries)
        children.append((child + n_nodes).astype(np.int32))
        n_nodes, n_entries, depth = n_nodes + tree.n_nodes, n_entries + len(child), max(depth, *level)
    feature = np.concatenate([tree.feature for tree in model.trees])
    step = np.concatenate([tree.leaf_value for tree in model.trees])
    stride = (feature >= 0).astype(np.int64)
    start, child = np.concatenate(starts), np.concatenate(children)
    return WalkTables(np.array(roots), position[feature], start, stride, child, step, depth)
