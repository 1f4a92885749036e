"""From the plain JSON of a model file to the frozen model: every type, index, length and range is checked on the way.

The content may come from anywhere. What passes here cannot hang, crash or overflow on a row, nor take much more memory
than a model that was fitted; what does not is refused with its place.
"""

import datetime
import math
import reprlib
import sys
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from mbct.errors import ModelFileError
from mbct.model.bins import CategoryBins, Feature, FeatureBins, NumberBins
from mbct.model.encoding import ValueType
from mbct.model.ensemble import CalibrationEnsemble, Link
from mbct.model.intervals import RowIntervals, bin_tree
from mbct.model.tree import NODE_SUMS, STOP, CalibrationTree, FitTrace, RoundRecord, SplitRecord
from mbct.validation import FloatArray

MOST_FEATURES = 10_000
MOST_CODES = 2**24
"""Codes of all features together."""
MOST_NODES = 2**22
"""Nodes of all trees together."""
MOST_DEPTH = 100
"""Trees are walked by recursion where they are written as text."""
MOST_TABLE_ENTRIES = 2**26
"""Entries of all nodes' tables together: a quarter of a gigabyte."""
LARGEST_LOG = 700.0
"""Sum over trees of the largest leaf values, in log-odds or logarithms of multipliers: exp of it is finite."""
LARGEST_SUM = 1e100
_ROUNDED = 1.0 + 1e-6
LONGEST_NUMBER = 400
"""Characters of a category that is a number."""


def read_ensemble(content: Any, place: str = "model") -> CalibrationEnsemble:
    """The ensemble of an MBCT model file."""
    fields = read_object(content, place, ("score_column", "link", "alpha", "features", "trees"))
    score_column, link = text(fields["score_column"], f"{place}.score_column"), fields["link"]
    if link not in get_args(Link):
        raise fault(f"{place}.link", link, f"one of {', '.join(get_args(Link))}")
    alpha = number(fields["alpha"], f"{place}.alpha", 0.0, 1.0)
    if alpha in (0.0, 1.0):
        raise fault(f"{place}.alpha", alpha, "a number between 0 and 1")
    bins = read_bins(fields["features"], f"{place}.features")
    if not bins.features or bins.names[0] != score_column or not isinstance(bins[0], NumberBins):
        raise fault(f"{place}.features[0]", bins.names[:1], f"the score {score_column!r}, a number")
    trees = read_trees(fields["trees"], bins, link, place)
    intervals = fields.get("intervals")
    if intervals is not None:
        tree = bin_tree(trees, link)
        intervals = read_intervals(intervals, 1 if tree is None else tree.n_nodes, f"{place}.intervals")
    return CalibrationEnsemble(score_column, link, bins, trees, alpha, intervals)


def read_bins(content: Any, place: str = "features") -> FeatureBins:
    """The bins of all features."""
    items = read_list(content, place, MOST_FEATURES)
    bins = FeatureBins(tuple(_feature(item, f"{place}[{j}]") for j, item in enumerate(items)))
    if len(set(bins.names)) < len(bins):
        raise fault(place, list(bins.names), "names that do not repeat")
    if sum(bins.n_codes) > MOST_CODES:
        raise fault(place, f"{sum(bins.n_codes):,} codes", f"at most {MOST_CODES:,}")
    return bins


def read_trees(content: Any, bins: FeatureBins, link: str, place: str = "model") -> tuple[CalibrationTree, ...]:
    """The trees of an ensemble; their leaf values together stay in the range of floats."""
    trees: list[CalibrationTree] = []
    nodes = entries = 0
    largest = 0.0
    for i, item in enumerate(read_list(content, f"{place}.trees", MOST_NODES)):
        tree = _tree(item, bins.n_codes, MOST_TABLE_ENTRIES - entries, link, f"{place}.trees[{i}]")
        nodes, entries = nodes + tree.n_nodes, entries + len(tree.table)
        most = float(np.abs(tree.leaf_value).max())
        largest += most if link == "odds" else max(math.log(most), 0.0) if most > 0.0 else 0.0
        if nodes > MOST_NODES:
            raise fault(f"{place}.trees", f"{nodes:,} nodes", f"at most {MOST_NODES:,}")
        if largest > LARGEST_LOG:
            raise fault(f"{place}.trees[{i}].leaf_value", most, "values whose sum over trees stays finite")
        trees.append(tree)
    return tuple(trees)


def read_intervals(content: Any, n_nodes: int | None = None, place: str = "intervals") -> RowIntervals:
    """Intervals of the bins of a model: bands of every node of the tree whose leaves are the bins, the last open."""
    fields = read_object(content, place, ("level", "start", "edges", "lower", "upper"))
    if n_nodes is None:
        n_nodes = len(read_list(fields["start"], f"{place}.start", MOST_NODES, least=2)) - 1
    start = numbers(fields["start"], f"{place}.start", n_nodes + 1, 0.0, MOST_NODES)
    size = len(read_list(fields["edges"], f"{place}.edges", MOST_NODES, least=1))
    if start[0] != 0.0 or start[-1] != size or np.any(np.diff(start) < 1.0) or np.any(start % 1.0):
        raise fault(f"{place}.start", fields["start"], f"whole numbers that rise from 0 to {size:,}")
    first = start.astype(np.int64)
    filled = [2.0 if edge is None else edge for edge in fields["edges"]]
    edges = numbers(filled, f"{place}.edges", size, 0.0, 2.0)
    within = np.delete(np.diff(edges), first[1:-1] - 1)
    if np.any(edges[first[1:] - 1] != 2.0) or np.any(within <= 0.0):
        raise fault(f"{place}.edges", fields["edges"], "edges that rise, each node's last None")
    lower, upper = (numbers(fields[n], f"{place}.{n}", size, 0.0, LARGEST_SUM) for n in ("lower", "upper"))
    level = number(fields["level"], f"{place}.level", 0.0, 1.0)
    return RowIntervals(level, first, np.where(edges == 2.0, math.inf, edges), lower, upper)


def read_fingerprint(content: Any, bounds: Any, place: str = "fingerprint") -> dict[str, Any]:
    """What is known of the rows of a fit; older files have ``bounds`` instead, whose first are those of all rows."""
    if content is None:
        sums = read_object(bounds, "bounds", NODE_SUMS)
        first = {name: read_list(sums[name], f"bounds.{name}", MOST_NODES, least=1)[0] for name in NODE_SUMS}
        content = {**first, "unique": 0, "sketch": []}
    fields = read_object(content, place, (*NODE_SUMS, "unique", "sketch"))
    count, label, pred = (number(fields[name], f"{place}.{name}", 0.0, LARGEST_SUM) for name in NODE_SUMS)
    hashes = read_list(fields["sketch"], f"{place}.sketch", MOST_NODES)
    if any(type(value) is not int or not 0 <= value < 2**53 for value in hashes):
        raise fault(f"{place}.sketch", hashes, "whole numbers below 2^53")
    unique = number(fields["unique"], f"{place}.unique", 0.0, 2.0**53)
    return {"count": count, "label": label, "pred": pred, "unique": int(unique), "sketch": tuple(hashes)}


def read_trace(content: Any, place: str = "trace") -> FitTrace:
    """What happened while the trees grew."""
    fields = read_object(content, place, ("loss", "splits", "rounds"))
    records: dict[type, list[Any]] = {SplitRecord: fields["splits"], RoundRecord: fields["rounds"]}
    read = {}
    for kind, items in records.items():
        read[kind] = tuple(_record(kind, item, place) for item in read_list(items, place, MOST_NODES))
    return FitTrace(text(fields["loss"], f"{place}.loss"), read[SplitRecord], read[RoundRecord])


def text(content: Any, place: str) -> str:
    """Text that is valid Unicode."""
    if type(content) is not str:
        raise fault(place, content, "text")
    try:
        content.encode()
    except UnicodeEncodeError as error:
        raise fault(place, content, "valid Unicode") from error
    return content


def number(content: Any, place: str, least: float, most: float) -> float:
    """One finite number in a range."""
    if type(content) not in (int, float) or not least <= content <= most:
        raise fault(place, content, f"a number from {least:g} to {most:g}")
    return float(content)


def numbers(content: Any, place: str, length: int, least: float, most: float) -> FloatArray:
    """So many finite numbers in a range."""
    values = read_list(content, place, length, least=length)
    if any(type(value) not in (int, float) or not least <= value <= most for value in values):
        raise fault(place, content, f"numbers from {least:g} to {most:g}")
    return np.array(values, dtype=np.float64)


def read_classes(content: Any, place: str, n_classes: int) -> npt.NDArray[Any]:
    """So many labels of one kind, text or numbers, that do not repeat."""
    labels = read_list(content, place, n_classes, least=n_classes)
    kinds = {float if type(label) is int else type(label) for label in labels}
    sound = len(kinds) == 1 and kinds <= {str, float, bool}
    if not sound or (float in kinds and not all(math.isfinite(label) for label in labels)):
        raise fault(place, labels, "labels that are all text or all numbers")
    array = np.asarray([text(label, place) for label in labels] if str in kinds else labels)
    if array.dtype.kind == "O" or len(set(labels)) < len(labels):
        raise fault(place, labels, "labels of the range of numbers that do not repeat")
    return array


def fault(place: str, found: Any, expected: str) -> ModelFileError:
    """What stands where, and what should."""
    shown = reprlib.repr(found)
    return ModelFileError(f"the model is damaged: {place} is {shown}, expected {expected}; restore it or fit again")


def _feature(content: Any, place: str) -> Feature:
    kind = read_object(content, place, ("kind", "name"))["kind"]
    name = text(content["name"], f"{place}.name")
    if kind == NumberBins.kind:
        items = read_list(read_object(content, place, ("edges",))["edges"], f"{place}.edges", MOST_CODES)
        finite = sys.float_info.max
        edges = numbers(items, f"{place}.edges", len(items), -finite, finite)
        if np.any(edges[1:] <= edges[:-1]):  # a difference could overflow
            raise fault(f"{place}.edges", items, "numbers that rise")
        if "distinct" not in content:
            return NumberBins(name, tuple(edges.tolist()))
        distinct = numbers(content["distinct"], f"{place}.distinct", len(edges) + 1, -finite, finite)
        if np.any(distinct[:-1] > edges) or np.any(distinct[1:] <= edges):
            raise fault(f"{place}.distinct", content["distinct"], "a value in each interval")
        return NumberBins(name, tuple(edges.tolist()), tuple(distinct.tolist()))
    if kind != CategoryBins.kind:
        raise fault(f"{place}.kind", kind, f"{NumberBins.kind} or {CategoryBins.kind}")
    fields = read_object(content, place, ("type", "values"))
    if fields["type"] not in get_args(ValueType):
        raise fault(f"{place}.type", fields["type"], f"one of {', '.join(get_args(ValueType))}")
    values = [text(value, f"{place}.values") for value in read_list(fields["values"], f"{place}.values", MOST_CODES)]
    if len(set(values)) < len(values):
        raise fault(f"{place}.values", values, "values that do not repeat")
    if wrong := [value for value in values if not _is_of_type(value, fields["type"])]:
        raise fault(f"{place}.values", wrong[0], f"values of type {fields['type']}")
    return CategoryBins(name, tuple(values), fields["type"])


def _is_of_type(value: str, kind: str) -> bool:
    try:
        if kind in ("integer", "number"):
            return len(value) <= LONGEST_NUMBER and not math.isnan(float(value))
        if kind in ("date", "datetime"):
            datetime.datetime.fromisoformat(value)
    except ValueError:
        return False
    return kind != "boolean" or value in ("true", "false")


def _tree(content: Any, n_codes: Sequence[int], most_entries: int, link: str, place: str) -> CalibrationTree:
    fields = read_object(content, place, ("feature", "children", "leaf_value", *NODE_SUMS))
    features = read_list(fields["feature"], f"{place}.feature", MOST_NODES, least=1)
    n_nodes = len(features)
    if any(type(feature) is not int or not -1 <= feature < len(n_codes) for feature in features):
        raise fault(f"{place}.feature", features, f"feature numbers below {len(n_codes)}, or -1")
    if sum(n_codes[feature] for feature in features if feature >= 0) > most_entries:
        raise fault(place, f"{n_nodes:,} nodes", f"tables of at most {MOST_TABLE_ENTRIES:,} codes in all trees")
    start, table = _tables(fields["children"], features, n_codes, place)
    least, most = (0.0, math.exp(LARGEST_LOG)) if link == "linear" else (-LARGEST_LOG, LARGEST_LOG)
    values = numbers(fields["leaf_value"], f"{place}.leaf_value", n_nodes, least, most)
    sums = _sums(fields, n_nodes, place)
    return CalibrationTree(np.array(features, dtype=np.int32), start, table, values, *sums)


def _sums(fields: dict[str, Any], n_nodes: int, place: str) -> list[FloatArray]:
    """Count, label and prediction of nodes; no node has more positives than rows."""
    sums = [numbers(fields[name], f"{place}.{name}", n_nodes, 0.0, LARGEST_SUM) for name in NODE_SUMS]
    count, label, _ = sums
    if np.any(label > count * _ROUNDED):
        raise fault(f"{place}.label", float(np.max(label - count)), "no more positives than rows")
    return sums


def _tables(content: Any, features: list[int], n_codes: Sequence[int], place: str) -> tuple[Any, Any]:
    """Where each node's table begins, and all tables; children follow their parent and have one."""
    branches = read_list(content, f"{place}.children", len(features), least=len(features))
    start = np.zeros(len(features), dtype=np.int64)
    table: list[int] = []
    depth = [0] * len(features)
    has_parent = [True] + [False] * (len(features) - 1)
    for node, (feature, below) in enumerate(zip(features, branches, strict=True)):
        start[node] = len(table)
        here = f"{place}.children[{node}]"
        if (below is None) != (feature < 0) or below == []:
            raise fault(here, below, "children if and only if the node has a feature")
        if depth[node] > MOST_DEPTH:
            raise fault(here, below, f"a node at most {MOST_DEPTH} deep")
        if feature < 0:
            continue
        own = [STOP] * n_codes[feature]  # a list: most runs are so short that an array would take longer
        for child, runs in (_pair(item, here) for item in read_list(below, here, len(own))):
            if type(child) is not int or not node < child < len(features) or has_parent[child]:
                raise fault(here, child, "a later node that has no other parent")
            has_parent[child], depth[child] = True, depth[node] + 1
            for first, last in (_pair(run, here) for run in read_list(runs, here, len(own), least=1)):
                if type(first) is not int or type(last) is not int or not 0 <= first <= last < len(own):
                    raise fault(here, [first, last], f"first and last of codes below {len(own)}")
                length = last + 1 - first
                if own[first : last + 1].count(STOP) != length:
                    raise fault(here, [first, last], "codes that lead to one child only")
                own[first : last + 1] = [child] * length
        table += own
    return start, np.array(table, dtype=np.int32)


def _record(kind: type, content: Any, place: str) -> Any:
    types: dict[str, type] = kind.__annotations__
    fields = read_object(content, place, tuple(types))
    for name, hint in types.items():
        allowed = (int, float) if hint is float else (hint,)
        if type(fields[name]) not in allowed or (hint is float and not math.isfinite(fields[name])):
            raise fault(f"{place}.{name}", fields[name], hint.__name__)
        if hint is str:
            text(fields[name], f"{place}.{name}")
    if set(fields) != set(types):
        raise fault(place, sorted(fields), f"the fields {', '.join(types)}")
    return kind(**fields)


def read_object(content: Any, place: str, names: Sequence[str]) -> dict[str, Any]:
    """An object that has at least these fields."""
    if type(content) is not dict:
        raise fault(place, content, "an object")
    if missing := [name for name in names if name not in content]:
        raise fault(place, sorted(content), f"an object with {missing[0]!r}")
    return content


def read_list(content: Any, place: str, most: int, least: int = 0) -> list[Any]:
    """A list of so many items."""
    if type(content) is not list or not least <= len(content) <= most:
        found = f"{len(content):,} items" if type(content) is list else content
        raise fault(place, found, f"a list of {f'{least:,} to ' if least != most else ''}{most:,} items")
    return content


def _pair(content: Any, place: str) -> tuple[Any, Any]:
    first, second = read_list(content, place, 2, least=2)
    return first, second
