"""The model as an ONNX graph in float64, from raw inputs to the calibrated probability.

The graph codes every input (numbers by binary search over the edges, categories by a ``LabelEncoder``), walks all
trees at once with ``Gather`` on one table of children, and moves the prediction. Every operator works on doubles, so
nothing is rounded to float32 as the operator for tree ensembles would.
"""

from typing import Any

import numpy as np

from mbct.data.columns import as_floats, factorize, read_columns
from mbct.errors import MissingDependencyError, ParameterError
from mbct.export.onnx_graph import Graph, WalkTables, walk_tables
from mbct.model.bins import CategoryBins, FeatureBins, NumberBins
from mbct.model.class_model import ClassModel
from mbct.model.conditions import used_features
from mbct.model.encoding import category_key
from mbct.model.ensemble import CalibrationEnsemble
from mbct.stats.logodds import EPSILON


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
    try:
        import onnx  # noqa: F401 - only to see whether it is there
    except ImportError as error:
        raise MissingDependencyError("ONNX export needs the package onnx: pip install 'mbct[onnx]'") from error
    _refuse_ambiguous(bins, missing_text, output)
    graph = Graph()
    return graph, [graph.input(each.name, text=isinstance(each, CategoryBins)) for each in bins]


def tree_steps(graph: Graph, model: CalibrationEnsemble, names: list[str], missing_text: str) -> str:
    """Leaf values of all trees, [rows, trees]."""
    used = used_features(model)
    columns = [graph.node("Unsqueeze", _codes(graph, model.bins[j], names[j], missing_text), [1]) for j in used]
    return _steps(graph, walk_tables(model, used), graph.node("Concat", *columns, axis=1))


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


def _steps(graph: Graph, tables: WalkTables, codes: str) -> str:
    """Steps [rows, trees] of the nodes where rows [rows, features] of codes stop."""
    # All rows begin at the roots: roots [1, trees] plus zeros [rows, 1].
    zeros = graph.node("Mul", graph.node("Slice", codes, [0], [1], [1]), 0)
    node = graph.node("Add", zeros, tables.roots[None, :])
    for _ in range(tables.depth):
        code = graph.node("GatherElements", codes, graph.node("Gather", tables.feature, node), axis=1)
        offset = graph.node("Mul", code, graph.node("Gather", tables.stride, node))
        entry = graph.node("Add", graph.node("Gather", tables.start, node), offset)
        node = graph.node("Cast", graph.node("Gather", tables.child, entry), to=graph.INT64)
    return graph.node("Gather", tables.step, node)


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
