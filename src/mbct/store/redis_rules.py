"""The model as Redis hashes that a client in any language can look up, without this package.

Under ``ROOT = mbct:{NAME}:rules:VERSION``:

=================== ====== ===========================================================================================
key                 type   content
=================== ====== ===========================================================================================
``ROOT``            hash   ``score``, ``applies_to`` ("odds" or "probability") and as JSON ``features``, ``tables``,
                           ``trees``: what a client reads once for a version and keeps
``ROOT:table:T``    hash   classes, joined by commas → multiplier: one hash a table
``ROOT:words``      list   rules in words, those that move most first
=================== ====== ===========================================================================================

A feature is ``{"name", "edges"}`` (code of a number: how many edges lie below it) or ``{"name", "codes"}`` (code by the
text of a value), each with the codes ``missing`` and ``unseen``; feature 0 is the prediction. A table is
``{"features", "classes"}``, with the class of each code. Its hash has the fields "", "a", "a,b" and "a,b,c" of a row's
classes, where the longest that is present counts: entries that equal those of their shorter field are left out. Trees
that are no tables are lists of nodes [multiplier, feature or -1, first code of each run, child of each run or -1 to
stop], which clients walk. All multipliers are multiplied: with the odds p/(1−p), p held inside [1e-9, 1 − 1e-9], or
with the probability, cut to [0, 1].
"""

import json
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.model.bins import Feature, NumberBins
from mbct.model.conditions import run_nodes
from mbct.model.ensemble import CalibrationEnsemble, large_table
from mbct.model.tables import TreeTable
from mbct.model.tree import CalibrationTree
from mbct.validation import FloatArray

MOST_FIELDS = 500_000
"""Entries of one table beyond which clients walk the tree, so that hashes stay in some megabytes."""
_MOST_WORDS = 200
_FIELDS_AT_ONCE = 5_000


def write_rules(client: Any, root: str, model: CalibrationEnsemble) -> None:
    """Write a model's hashes; nothing reads them before the pointer names their version."""
    tables: list[dict[str, Any]] = []
    trees: list[list[Any]] = []
    pipeline = client.pipeline(transaction=False)
    for tree in model.trees:
        table = large_table(tree, model.bins.n_codes)
        fields = None if table is None else _table_fields(table, _multipliers(model, tree))
        if table is None or fields is None:
            trees.append(_nodes(model, tree))
            continue
        remaining = iter(fields.items())
        while some := dict(islice(remaining, _FIELDS_AT_ONCE)):
            pipeline.hset(f"{root}:table:{len(tables)}", mapping=some)
        tables.append({"features": table.features, "classes": [of_code.tolist() for of_code in table.classes]})
    strongest = sorted(model.rules(), key=lambda rule: -rule.effect)[:_MOST_WORDS]
    pipeline.delete(f"{root}:words")  # A version that is published again has them already
    if strongest:
        pipeline.rpush(f"{root}:words", *map(str, strongest))
    described = {"features": [_feature(feature) for feature in model.bins], "tables": tables, "trees": trees}
    content = {name: json.dumps(value, ensure_ascii=False, separators=(",", ":")) for name, value in described.items()}
    content |= {"score": model.score_column, "applies_to": "probability" if model.link == "linear" else "odds"}
    pipeline.hset(root, mapping=content)
    pipeline.execute()


def layout_keys(client: Any, root: str) -> list[str]:
    """Every key of a version's rules."""
    tables = json.loads(client.hget(root, "tables") or "[]")
    return [root, f"{root}:words", *(f"{root}:table:{t}" for t in range(len(tables)))]


def _feature(feature: Feature) -> dict[str, Any]:
    if isinstance(feature, NumberBins):
        how: dict[str, Any] = {"edges": feature.edges}
    else:
        how = {"codes": {value: code for code, value in enumerate(feature.values)}}
    return {"name": feature.name, **how, "missing": feature.missing, "unseen": feature.unseen}


def _multipliers(model: CalibrationEnsemble, tree: CalibrationTree) -> FloatArray:
    return tree.leaf_value if model.link == "linear" else np.exp(tree.leaf_value)


def _nodes(model: CalibrationEnsemble, tree: CalibrationTree) -> list[Any]:
    multiplier = _multipliers(model, tree).tolist()
    return [
        [multiplier[number], node.feature, node.starts, node.children]
        for number, node in enumerate(run_nodes(model, tree))
    ]


def _table_fields(table: TreeTable, multipliers: FloatArray) -> dict[str, str] | None:
    """The fields of a table's hash; None where they are too many."""
    stops = table.terminal_nodes
    if table.pairs is not None:
        stops = stops.reshape(-1, table.n_classes[-1])[table.pairs]
    by_class = multipliers[stops].reshape(table.n_classes)
    fields = {"": repr(_most_common(by_class))}
    _add_fields(fields, by_class, "", _most_common(by_class))
    return fields if len(fields) <= MOST_FIELDS else None


def _add_fields(fields: dict[str, str], below: npt.NDArray[np.float64], prefix: str, inherited: float) -> None:
    """Fields of the entries below a prefix that differ from what they inherit."""
    for position, entries in enumerate(below):
        value = _most_common(entries)
        name = f"{prefix}{position}"
        if value != inherited:
            fields[name] = repr(value)
        if entries.ndim and np.any(entries != value):
            _add_fields(fields, entries, f"{name},", value)


def _most_common(entries: npt.NDArray[np.float64]) -> float:
    values, counts = np.unique(entries, return_counts=True)
    return float(values[np.argmax(counts)])
