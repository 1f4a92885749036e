"""A scaling of many classes as Python, SQL or ONNX: one score for each class in, one probability for each out."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mbct.errors import MissingDependencyError, ParameterError
from mbct.export.onnx_graph import Graph
from mbct.export.sql.dialects import dialect_of
from mbct.model.class_scaling import ClassScaling
from mbct.stats.logodds import EPSILON

_PYTHON = '''"""Calibrated probabilities of many classes; needs the standard library alone."""

from math import exp, log

SCORES = {scores!r}
CLASSES = {classes!r}
INVERSE_TEMPERATURE, UNIFORM = {inverse!r}, {uniform!r}
WEIGHTS = {weights!r}
INTERCEPT = {intercept!r}


def softmax(z):
    """Probabilities of log-weights."""
    top = max(z)
    e = [exp(value - top) for value in z]
    total = sum(e)
    return [value / total for value in e]


def calibrate(row):
    """The probability of each class for a row, a dictionary of its scores."""
    p = [float(row[name]) for name in SCORES]
    for name, value in zip(SCORES, p):
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"{{name!r}} must be a probability between 0 and 1, got {{value!r}}")
    tempered = softmax([INVERSE_TEMPERATURE * log(max(value, {epsilon!r})) for value in p])
    x = [log((1.0 - UNIFORM) * value + UNIFORM / len(p)) for value in tempered]
    z = [b + sum(w * value for w, value in zip(weights, x)) for weights, b in zip(WEIGHTS, INTERCEPT)]
    return dict(zip(CLASSES, softmax(z)))
'''


def classes_to_python(model: ClassScaling) -> str:
    """Source of a module with ``calibrate(row: dict) -> dict``, of class names to probabilities."""
    return _PYTHON.format(
        scores=model.scores,
        classes=model.classes,
        inverse=model.inverse_temperature,
        uniform=model.uniform,
        weights=model.weights.tolist(),
        intercept=model.intercept.tolist(),
        epsilon=EPSILON,
    )


def classes_to_sql(
    model: ClassScaling, dialect: str = "duckdb", table: str = "data", keep: Any = (), column: str = "calibrated"
) -> str:
    """A SELECT of the columns ``keep`` (all scores if none) and of ``column``_CLASS for each class, from ``table``.

    For engines that know GREATEST, LN and EXP; ``table`` stands in the query as it is given.
    """
    spoken = dialect_of(dialect)
    if "GREATEST" not in spoken.clip:
        raise ParameterError(f"the classes of a model are not written for {spoken.name}, which has no GREATEST")
    n, number = range(len(model.scores)), spoken.double
    named = [name.strip() for name in keep.split(",")] if isinstance(keep, str) else list(keep)
    kept = ", ".join(map(spoken.identifier, named or model.scores))

    def step(query: str, *columns: str) -> str:
        return f"SELECT {kept}, {', '.join(columns)}\nFROM (\n{query}\n) AS mbct"

    def normalised(query: str, first: str, then: str, names: list[str] | None = None) -> str:
        """Softmax of the columns called ``first``, in two steps; the result is called ``then``, or by ``names``."""
        top = f"GREATEST({', '.join(f'{first}{k}' for k in n)})"
        query = step(query, *(f"EXP({first}{k} - {top}) AS mbct_e{k}" for k in n))
        total = " + ".join(f"mbct_e{k}" for k in n)
        return step(query, *(f"mbct_e{k} / ({total}) AS {names[k] if names else f'{then}{k}'}" for k in n))

    logs = (
        f"{number(model.inverse_temperature)} * LN(GREATEST({spoken.as_double.format(spoken.identifier(name))}, "
        f"{number(EPSILON)})) AS mbct_x{k}"
        for k, name in enumerate(model.scores)
    )
    query = normalised(f"SELECT {kept}, {', '.join(logs)}\nFROM {table}", "mbct_x", "mbct_t")
    mixed = f"{number(1.0 - model.uniform)} * mbct_t{{}} + {number(model.uniform / len(model.scores))}"
    query = step(query, *(f"LN({mixed.format(k)}) AS mbct_l{k}" for k in n))
    linear = (
        " + ".join([number(model.intercept[k]), *(f"{number(model.weights[k, j])} * mbct_l{j}" for j in n)]) for k in n
    )
    query = step(query, *(f"{each} AS mbct_z{k}" for k, each in enumerate(linear)))
    return normalised(query, "mbct_z", "", [spoken.identifier(f"{column}_{name}") for name in model.classes]) + "\n"


def classes_to_onnx(model: ClassScaling, output: str = "calibrated") -> bytes:
    """A serialised ONNX model: an input of doubles of shape [rows] for each score, an output of shape [rows, K]."""
    try:
        import onnx  # noqa: F401 - only to see whether it is there
    except ImportError as error:
        raise MissingDependencyError("ONNX export needs the package onnx: pip install 'mbct[onnx]'") from error
    graph, n_classes = Graph(), len(model.scores)
    axis = graph.constant(np.array([1]))
    columns = [graph.node("Unsqueeze", [graph.input(name, text=False), axis]) for name in model.scores]
    p = graph.node("Max", [graph.node("Concat", columns, axis=1), graph.constant(np.array(EPSILON))])
    scaled = graph.node("Mul", [graph.node("Log", [p]), graph.constant(np.array(model.inverse_temperature))])
    share = graph.node("Mul", [graph.node("Softmax", [scaled], axis=1), graph.constant(np.array(1.0 - model.uniform))])
    x = graph.node("Log", [graph.node("Add", [share, graph.constant(np.array(model.uniform / n_classes))])])
    z = graph.node("MatMul", [x, graph.constant(np.ascontiguousarray(model.weights.T))])
    moved = graph.node("Add", [z, graph.constant(model.intercept)])
    return graph.finished(graph.node("Softmax", [moved], axis=1), output, ("rows", n_classes))


TARGETS: dict[str, Callable[..., str | bytes]] = {
    "python": classes_to_python,
    "sql": classes_to_sql,
    "onnx": classes_to_onnx,
}
"""What a scaling of many classes can be written as."""
