"""A model of many classes as Python, SQL or ONNX: one score for each class in, one probability for each out."""

from itertools import pairwise
from typing import Any

import numpy as np

from mbct.errors import ParameterError
from mbct.export import onnx
from mbct.export.python import standalone
from mbct.export.sql.dialects import Dialect, dialect_of
from mbct.export.sql.statement import column_names, condition_writer, in_groups, tree_steps
from mbct.model.class_model import ClassModel
from mbct.model.ensemble import CalibrationEnsemble

_PYTHON = '''# softmax(W·x + b + leaf values), x = ln((1 - u)·softmax(a·ln p) + u/K), p the scores, at least FLOOR
SCORES: Sequence[str] = {scores!r}
CLASSES: Sequence[str] = {classes!r}
INVERSE_TEMPERATURE, UNIFORM, FLOOR = {inverse!r}, {uniform!r}, {floor!r}
WEIGHTS = {weights!r}
INTERCEPT = {intercept!r}
# First and last tree of each class
PARTS: Sequence[tuple[int, int]] = {parts!r}


def calibrate(row: dict[str, Any]) -> dict[str, float]:
    """Calibrated probability of each class for one row of raw values."""
    p = [_number(_value(row, name)) for name in SCORES]
    for name, value in zip(SCORES, p):
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"{{name!r}} must be a probability between 0 and 1, got {{row[name]!r}}")
    tempered = _softmax([INVERSE_TEMPERATURE * math.log(max(value, FLOOR)) for value in p])
    x = [math.log((1.0 - UNIFORM) * value + UNIFORM / len(p)) for value in tempered]
    z = [b + sum(w * value for w, value in zip(weights, x)) for weights, b in zip(WEIGHTS, INTERCEPT)]
    codes = [_code(_value(row, f[0]), f) for f in FEATURES] if TREES else []
    for k, (begin, end) in enumerate(PARTS):
        z[k] += sum(_step(nodes, codes) for nodes in TREES[begin:end])
    return dict(zip(CLASSES, _softmax(z)))


def _softmax(z: list[float]) -> list[float]:
    top = max(z)
    e = [math.exp(value - top) for value in z]
    total = sum(e)
    return [value / total for value in e]


'''


def classes_to_python(model: ClassModel) -> str:
    """Source of a module with ``calibrate(row: dict) -> dict``, of class names to probabilities."""
    head, rest = standalone(_all_trees(model))
    scaling, ends = model.scaling, np.cumsum([0, *(len(each.trees) for each in model.ensembles)]).tolist()
    calibrate = _PYTHON.format(
        scores=model.scores,
        classes=model.classes,
        inverse=scaling.inverse_temperature,
        uniform=scaling.uniform,
        floor=scaling.floor,
        weights=scaling.weights.tolist(),
        intercept=scaling.intercept.tolist(),
        parts=list(pairwise(ends)),
    )
    return head + calibrate + rest[rest.index("def _step") :]


def _all_trees(model: ClassModel) -> CalibrationEnsemble:
    """The trees of all classes, one class after the other."""
    trees = tuple(tree for each in model.ensembles for tree in each.trees)
    return CalibrationEnsemble(model.scores[0], "odds", model.bins, trees)


def classes_to_sql(
    model: ClassModel, dialect: str = "duckdb", table: str = "data", keep: Any = (), column: str = "calibrated"
) -> str:
    """A SELECT of the columns ``keep`` (all scores if none) and of ``column``_CLASS for each class, from ``table``.

    For engines that know GREATEST, LN and EXP; ``table`` stands in the query as it is given.
    """
    spoken = dialect_of(dialect)
    if "GREATEST" not in spoken.clip:
        raise ParameterError(f"the classes of a model are not written for {spoken.name}, which has no GREATEST")
    n, number, scaling = range(len(model.scores)), spoken.double, model.scaling
    named = [name.strip() for name in keep.split(",")] if isinstance(keep, str) else list(keep)
    kept = ", ".join(map(spoken.identifier, named or model.scores))
    trees = _leaf_values(model, spoken)
    score = (
        f"{number(scaling.inverse_temperature)} * LN(GREATEST({spoken.as_double}, {number(scaling.floor)})) AS mbct_x"
    )
    scores = [f"{score.format(spoken.identifier(name))}{k}" for k, name in enumerate(model.scores)]
    mixed = f"{number(1.0 - scaling.uniform)} * mbct_t{{}} + {number(scaling.uniform / len(n))}"
    linear = [
        [
            number(scaling.intercept[k]),
            *(f"{number(scaling.weights[k, j])} * mbct_l{j}" for j in n if scaling.weights[k, j] != 0.0),
            *([f"mbct_s{k}"] if k in trees else []),
        ]
        for k in n
    ]
    beside_trees = [*_softmax("mbct_x", [f"mbct_t{k}" for k in n]), [f"LN({mixed.format(k)}) AS mbct_l{k}" for k in n]]
    steps = [
        [*scores, *(f"\n{lines} AS mbct_s{k}" for k, lines in trees.items())],
        *([*columns, *(f"mbct_s{k}" for k in trees)] for columns in beside_trees),
        [f"{' + '.join(terms)} AS mbct_z{k}" for k, terms in enumerate(linear)],
        *_softmax("mbct_z", [spoken.identifier(f"{column}_{name}") for name in model.classes]),
    ]
    *before, last = (
        f"SELECT {', '.join([kept, *columns])}\nFROM {f'mbct_{i}' if i else table}" for i, columns in enumerate(steps)
    )
    # Where an engine would write each step into the next, wherever that names it, it must be kept from doing so.
    named_steps = (f"mbct_{i} AS {spoken.materialized}(\n{query}\n)" for i, query in enumerate(before, start=1))
    return f"WITH {', '.join(named_steps)}\n{last}\n"


def _softmax(first: str, names: list[str]) -> tuple[list[str], list[str]]:
    """Columns of two steps: exponentials of the columns called ``first``, then their shares, called ``names``."""
    n = range(len(names))
    top, total = f"GREATEST({', '.join(f'{first}{k}' for k in n)})", " + ".join(f"mbct_e{k}" for k in n)
    exponentials = [f"EXP({first}{k} - {top}) AS mbct_e{k}" for k in n]
    return exponentials, [f"mbct_e{k} / ({total}) AS {names[k]}" for k in n]


def _leaf_values(model: ClassModel, dialect: Dialect) -> dict[int, str]:
    """The summed leaf values of each class that has trees."""
    whole = _all_trees(model)
    if (leaves := sum(len(tree.leaves) for tree in whole.trees)) > dialect.most_case_leaves:
        raise ParameterError(
            f"{leaves:,} leaves of {len(whole.trees):,} trees as CASE are more than {dialect.name} compiles (at most "
            f"{dialect.most_case_leaves:,}): fit with fewer trees for each class (max_trees), or export to onnx"
        )
    columns = column_names(whole, dialect)
    return {
        k: "\n".join(in_groups(tree_steps(each, dialect, condition_writer(each, dialect, columns, {}), {}), "+"))
        for k, each in enumerate(model.ensembles)
        if each.trees
    }


def classes_to_onnx(model: ClassModel, missing_text: str = "", output: str = "calibrated") -> bytes:
    """A serialised ONNX model: inputs as of :func:`~mbct.export.onnx.to_onnx`, an output of shape [rows, K]."""
    graph, names = onnx.graph_of_columns(model.bins, missing_text, output)
    scaling, n_classes = model.scaling, len(model.scores)
    columns = [graph.node("Unsqueeze", name, [1]) for name in names[:n_classes]]
    p = graph.node("Max", graph.node("Concat", *columns, axis=1), scaling.floor)
    scaled = graph.node("Mul", graph.node("Log", p), scaling.inverse_temperature)
    share = graph.node("Mul", graph.node("Softmax", scaled, axis=1), 1.0 - scaling.uniform)
    x = graph.node("Log", graph.node("Add", share, scaling.uniform / n_classes))
    z = graph.node("Add", graph.node("MatMul", x, np.ascontiguousarray(scaling.weights.T)), scaling.intercept)
    whole = _all_trees(model)
    if whole.trees:
        steps = onnx.tree_steps(graph, whole, names, missing_text)
        owner = np.repeat(np.arange(n_classes), [len(each.trees) for each in model.ensembles])
        z = graph.node("Add", z, graph.node("MatMul", steps, np.eye(n_classes)[owner]))
    return graph.finished(graph.node("Softmax", z, axis=1), output, ("rows", n_classes))
