"""The model as an ONNX graph in float64, from raw inputs to the calibrated probability.

The graph codes every input (numbers by binary search over the edges, categories by a ``LabelEncoder``), walks all
trees at once with ``Gather`` on one table of children, and moves the prediction. Every operator works on doubles, so
nothing is rounded to float32 as the operator for tree ensembles would.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.data.columns import as_floats, factorize, read_columns
from mbct.errors import ParameterError
from mbct.lazy import optional
from mbct.model.bins import CategoryBins, FeatureBins, NumberBins
from mbct.model.class_model import ClassModel
from mbct.model.conditions import used_features
from mbct.model.encoding import category_key
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.tree import STOP
from mbct.stats.probabilities import EPSILON

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


def to_onnx(model: CalibrationEnsemble, missing_text: str = "", output: str = "calibrated") -> bytes:
    """A serialised ONNX model with one input of shape [rows] for each feature.

    Features that no tree looks at are inputs too, so that a refitted model takes the same ones. Numbers and the
    prediction are tensors of doubles, NaN where missing. Categories are tensors of strings that hold the canonical
    text (3 is ``"3"``, True is ``"true"``), ``missing_text`` where missing; :func:`onnx_inputs` makes them from a
    frame.
    """
    graph, names = graph_of_columns(model.bins, missing_text, output)
    if not model.trees:
        return graph.finished(graph.node("Identity", names[0]), output)
    steps = tree_steps(graph, model, names, missing_text)
    moved = _multiplied(graph, names[0], steps) if model.link == "linear" else _moved(graph, names[0], steps)
    return graph.finished(graph.node("Where", graph.node("IsNaN", names[0]), names[0], moved), output)


def graph_of_columns(bins: FeatureBins, missing_text: str, output: str) -> tuple[Graph, list[str]]:
    """A graph with an input for each column, and their names."""
    optional("ONNX export needs the package onnx: pip install 'mbct[onnx]'", "onnx")
    _refuse_ambiguous(bins, missing_text, output)
    graph = Graph()
    return graph, [graph.input(each.name, text=isinstance(each, CategoryBins)) for each in bins]


def tree_steps(graph: Graph, model: CalibrationEnsemble, names: list[str], missing_text: str) -> str:
    """Leaf values of all trees, [rows, trees]."""
    used = used_features(model)
    columns = [graph.node("Unsqueeze", _codes(graph, model.bins[j], names[j], missing_text), [1]) for j in used]
    codes, tables = graph.node("Concat", *columns, axis=1), walk_tables(model, used)
    # All rows begin at the roots: roots [1, trees] plus zeros [rows, 1].
    zeros = graph.node("Mul", graph.node("Slice", codes, [0], [1], [1]), 0)
    node = graph.node("Add", zeros, tables.roots[None, :])
    for _ in range(tables.depth):
        code = graph.node("GatherElements", codes, graph.node("Gather", tables.feature, node), axis=1)
        offset = graph.node("Mul", code, graph.node("Gather", tables.stride, node))
        entry = graph.node("Add", graph.node("Gather", tables.start, node), offset)
        node = graph.node("Cast", graph.node("Gather", tables.child, entry), to=graph.INT64)
    return graph.node("Gather", tables.step, node)


def onnx_inputs(model: CalibrationEnsemble | ClassModel, data: Any, missing_text: str = "") -> dict[str, Any]:
    """The graph's inputs from a frame or a dictionary of columns, for ``session.run(None, inputs)``."""
    columns = read_columns(data)
    inputs: dict[str, Any] = {}
    for bins in model.bins:
        column = columns.column(bins.name)
        if isinstance(bins, NumberBins):
            inputs[bins.name] = as_floats(column)
        else:
            values, position = factorize(column)
            keys = [_input_text(bins, value, missing_text) for value in values]
            inputs[bins.name] = np.array(keys, dtype=object)[position]
    return inputs


def _input_text(bins: CategoryBins, value: Any, missing_text: str) -> str:
    """The spelling that the model knows a value by; its own where the value is unseen."""
    code = bins.code(value)
    if code < bins.n_values:
        return bins.values[code]
    return missing_text if code == bins.missing else category_key(value) or missing_text


def _refuse_ambiguous(features: FeatureBins, missing_text: str, output: str) -> None:
    for bins in features:
        if bins.name == output:
            raise ParameterError(f"output={output!r} is also the name of an input; pass another name for the output")
        if missing_text in getattr(bins, "values", ()):
            raise ParameterError(
                f"{missing_text!r} is a known value of {bins.name!r} and cannot also stand for a missing one; "
                "pass another missing_text, for example '<missing>'"
            )


def _codes(graph: Graph, bins: NumberBins | CategoryBins, name: str, missing_text: str) -> str:
    if isinstance(bins, NumberBins):
        position = _edges_below(graph, name, np.asarray(bins.edges, dtype=np.float64))
        return graph.node("Where", graph.node("IsNaN", name), bins.missing, position)
    known = {text: code for text, code in bins.code_of.items() if text is not None} | {missing_text: bins.missing}
    codes = {"keys_strings": list(known), "values_int64s": list(known.values()), "default_int64": bins.unseen}
    return graph.node("LabelEncoder", name, domain="ai.onnx.ml", **codes)


def _edges_below(graph: Graph, x: str, edges: Any) -> str:
    """Number of edges below x, by a binary search that is unrolled: one Gather a bit.

    The edges are padded with +∞, which no number exceeds, to one less than a power of two.
    """
    n_bits = len(edges).bit_length()
    padded = np.concatenate([edges, np.full((1 << n_bits) - 1 - len(edges), np.inf)])
    position = graph.node("Mul", graph.node("Cast", graph.node("IsNaN", x), to=graph.INT64), 0)
    for bit in reversed(range(n_bits)):
        probe = graph.node("Add", position, (1 << bit) - 1)
        above = graph.node("Greater", x, graph.node("Gather", padded, probe))
        advance = graph.node("Mul", graph.node("Cast", above, to=graph.INT64), 1 << bit)
        position = graph.node("Add", position, advance)
    return position


def _multiplied(graph: Graph, p: str, steps: str) -> str:
    product = graph.node("ReduceProd", steps, [1], keepdims=0)
    return graph.node("Clip", graph.node("Mul", p, product), 0.0, 1.0)


def _moved(graph: Graph, p: str, steps: str) -> str:
    """σ(logit(p) + s), with p held inside [ε, 1 − ε]."""
    total = graph.node("ReduceSum", steps, [1], keepdims=0)
    held = graph.node("Clip", p, EPSILON, 1.0 - EPSILON)
    # p / (p + (1 − p)·exp(−s)): where exp overflows to infinity, the quotient is zero as it must be.
    against = graph.node("Mul", graph.node("Sub", 1.0, held), graph.node("Exp", graph.node("Neg", total)))
    return graph.node("Div", held, graph.node("Add", held, against))
