"""What an ONNX graph is built from: a thin builder, and all trees in one set of arrays.

Nodes are named by their outputs, constants become initializers once. In the arrays every row takes the same number of
steps.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.model.conditions import run_nodes
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

    def constant(self, values: npt.NDArray[Any]) -> str:
        """Name of a constant; equal constants are stored once."""
        key = (values.dtype.str, values.shape, values.tobytes())
        if key not in self._constants:
            self._constants[key] = self._numpy.from_array(values, f"constant:{len(self._constants)}")
        return str(self._constants[key].name)

    def node(self, operator: str, inputs: list[str], domain: str = "", **attributes: Any) -> str:
        """Append a node; returns the name of its only output."""
        output = f"node:{len(self._nodes)}:{operator}"
        self._nodes.append(self._helper.make_node(operator, inputs, [output], domain=domain, **attributes))
        return output

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
