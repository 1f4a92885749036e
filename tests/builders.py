"""Small builders that many tests share: random models, random raw rows, simulated data."""

import datetime
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mbct.data.columns import encode, read_columns
from mbct.model.bins import CategoryBins, FeatureBins, NumberBins
from mbct.model.encoding import category_key
from mbct.model.ensemble import CalibrationEnsemble, Link
from mbct.model.tree import CalibrationTree

AWKWARD_VALUES = (
    "a",
    "b",
    "C c",
    "O'Hare",
    'say "hi"',
    "'; DROP TABLE x; --",
    "naïve",
    "100%",
    "-",
    " ",
    "NULL",
    "a\\b",
    "A",
    "a ",
    "x\\",
    "\\' OR 1=1 --",
    "two\nlines",
    "${env:HOME}",
    "`[tick]`",
    "{{ x }}",
    "名前 😀",
)
DAYS = tuple(datetime.date(2024, 1, 29) + datetime.timedelta(days=i) for i in range(6))
MOMENTS = tuple(
    datetime.datetime(2024, 2, 28, 23) + datetime.timedelta(minutes=20 * i, microseconds=i) for i in range(6)
)
AMOUNTS = (0.1, -2.5, 3.0, 1e-7, 0.30000000000000004, 1e22)


def random_bins(rng: np.random.Generator, n_features: int = 4) -> FeatureBins:
    """The score, then numbers and categories of several types in turn."""
    features: list[Any] = [
        NumberBins("score", tuple(np.sort(rng.choice(np.arange(1, 100), 7, False) / 100.0).tolist()))
    ]
    for j in range(n_features):
        kind = j % 7
        if kind == 0:
            edges = np.unique(rng.normal(size=rng.integers(1, 6)).round(2) * 10)
            features.append(NumberBins(f"number {j}", tuple(edges.tolist())))
        elif kind == 1:
            values = rng.permutation(AWKWARD_VALUES)[: rng.integers(2, len(AWKWARD_VALUES))]
            features.append(CategoryBins(f"text_{j}", tuple(map(str, values)), "string"))
        elif kind == 2:
            values = np.unique(rng.integers(-5, 20, rng.integers(2, 8)))
            features.append(CategoryBins(f"whole_{j}", tuple(map(str, values)), "integer"))
        elif kind == 3:
            features.append(CategoryBins(f"flag_{j}", ("true", "false"), "boolean"))
        else:
            name, value_type, values = (
                ("day", "date", DAYS),
                ("moment", "datetime", MOMENTS),
                ("amount", "number", AMOUNTS),
            )[kind - 4]
            chosen = rng.permutation(len(values))[: rng.integers(2, len(values))]
            keys = tuple(str(category_key(values[i])) for i in chosen)
            features.append(CategoryBins(f"{name}_{j}", keys, value_type))
    return FeatureBins(tuple(features))


def random_tree(rng: np.random.Generator, bins: FeatureBins, link: Link, max_nodes: int = 12) -> CalibrationTree:
    """A tree of random multiway and binary splits; some codes stop at inner nodes, some sets need several intervals."""
    feature, tables, start, filled = [-1], [], [0], 0
    node = 0
    while node < len(feature):
        if len(feature) < max_nodes and rng.random() < 0.7:
            chosen = int(rng.integers(len(bins)))
            n_children = int(rng.integers(2, 4))
            first = len(feature)
            table = rng.integers(0, n_children, bins[chosen].n_codes) + first
            if bins[chosen].ordered and rng.random() < 0.8:
                table[: bins[chosen].n_values] = np.sort(table[: bins[chosen].n_values])
            table[rng.random(len(table)) < 0.2] = -1
            table[0] = max(table[0], first) if np.all(table < 0) else table[0]
            feature[node] = chosen
            start[node] = filled
            tables.append(table)
            filled += len(table)
            feature.extend([-1] * n_children)
            start.extend([0] * n_children)
        node += 1
    n = len(feature)
    step = rng.uniform(0.3, 2.5, n) if link == "linear" else rng.normal(0.0, 0.7, n)
    count = rng.integers(10, 1000, n).astype(float)
    label = np.floor(count * rng.uniform(0.05, 0.9, n))
    return CalibrationTree(
        np.array(feature, np.int32),
        np.array(start, np.int64),
        np.concatenate(tables).astype(np.int32) if tables else np.empty(0, np.int32),
        step.round(6),
        count,
        label,
        label * rng.uniform(0.5, 2.0, n),
    )


def random_model(seed: int, link: Link = "odds", n_trees: int = 3, n_features: int = 4) -> CalibrationEnsemble:
    """A model with every kind of feature and split; the same seed gives the same model."""
    rng = np.random.default_rng(seed)
    bins = random_bins(rng, n_features)
    return CalibrationEnsemble("score", link, bins, tuple(random_tree(rng, bins, link) for _ in range(n_trees)))


def random_rows(
    seed: int, model: CalibrationEnsemble, n_rows: int = 200, *, infinite: bool = False
) -> dict[str, list[Any]]:
    """Raw columns for a model: known, missing (None) and unseen values, numbers on and beside the edges.

    ``infinite`` adds infinities, NaN and predictions of 0 and 1, which not every format can carry.
    """
    rng = np.random.default_rng(seed)
    columns: dict[str, list[Any]] = {"score": rng.beta(0.6, 1.5, n_rows).tolist()}
    for feature in model.bins.features[1:]:
        columns[feature.name] = [_random_value(rng, feature) for _ in range(n_rows)]
        if infinite and isinstance(feature, NumberBins):
            columns[feature.name][:3] = [np.inf, -np.inf, np.nan]
    if infinite:
        columns["score"][:4] = [0.0, 1.0, 1e-12, model.bins[0].edges[0]]
    return columns


def reference(model: CalibrationEnsemble, rows: dict[str, list[Any]]) -> np.ndarray[Any, Any]:
    """Calibrated probabilities of raw columns, as the package itself computes them."""
    y_prob = np.array(rows[model.score_column], dtype=np.float64)
    columns = read_columns({name: _objects(values) for name, values in rows.items()})
    return model.calibrate_codes(encode(columns, model.bins, y_prob), y_prob)


def _objects(values: list[Any]) -> np.ndarray[Any, Any]:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _random_value(rng: np.random.Generator, feature: NumberBins | CategoryBins) -> Any:
    draw = rng.random()
    if draw < 0.1:
        return None
    if isinstance(feature, NumberBins):
        return float(rng.choice(feature.edges)) if draw < 0.3 and feature.edges else float(rng.normal() * 10)
    if feature.value_type == "boolean":
        return bool(rng.random() < 0.5)
    if feature.value_type == "integer":
        return int(rng.integers(-8, 25)) if draw < 0.3 else int(rng.choice(feature.values))
    if feature.value_type in _TYPED_VALUES:
        known = _TYPED_VALUES[feature.value_type]
        return known[int(rng.integers(len(known)))]
    return "never seen" if draw < 0.2 else str(rng.choice(feature.values))


@dataclass(frozen=True)
class Simulated:
    """Simulated clicks: the frame (features, score ``p``, label ``y``), its score and label, and the truth."""

    frame: pd.DataFrame
    p: np.ndarray
    y: np.ndarray
    truth: np.ndarray


def biased_clicks(seed: int, n_rows: int, *, calibrated: bool = False) -> Simulated:
    """Clicks whose base prediction is 1.6 times too low on mobile and 0.7 times too high on desktop at night."""
    rng = np.random.default_rng(seed)
    device = rng.choice(["mobile", "desktop"], n_rows)
    night = rng.random(n_rows) < 0.4
    site = np.array([f"s{i}" for i in np.minimum(rng.geometric(0.15, n_rows), 30)])
    age = rng.integers(18, 80, n_rows)
    p = rng.beta(1.2, 9.0, n_rows)
    bias = np.where(device == "mobile", 1.6, np.where(night, 0.7, 1.0))
    truth = p if calibrated else np.clip(p * bias, 0.0, 1.0)
    y = (rng.random(n_rows) < truth).astype(float)
    frame = pd.DataFrame({"device": device, "night": night, "site": site, "age": age, "p": p, "y": y})
    return Simulated(frame, p, y, truth)


_TYPED_VALUES: dict[str, tuple[Any, ...]] = {"date": DAYS, "datetime": MOMENTS, "number": AMOUNTS}


def one_split_model(feature: CategoryBins, link: Link = "odds") -> CalibrationEnsemble:
    """One tree with a leaf for each known value of one category; missing and unseen values stop at the root."""
    n = feature.n_values
    tree = CalibrationTree(
        np.array([1, *[-1] * n], np.int32),
        np.zeros(n + 1, np.int64),
        np.array([*range(1, n + 1), -1, -1], np.int32),
        np.linspace(0.1, 2.0, n + 1),
        *(np.ones(n + 1) for _ in range(3)),
    )
    return CalibrationEnsemble("score", link, FeatureBins((NumberBins("score", ()), feature)), (tree,))


def wide_model(
    seed: int, link: Link = "odds", n_trees: int = 32, n_leaves: int = 32, n_values: int = 3000
) -> CalibrationEnsemble:
    """A model of the size that is served: binary trees over two numbers and a category of many values."""
    rng = np.random.default_rng(seed)
    values = tuple(f"site_{i:05d}" for i in rng.permutation(n_values))
    numbers = [NumberBins(name, tuple(np.unique(rng.normal(size=127).round(3)).tolist())) for name in ("age", "price")]
    score = NumberBins("score", tuple(np.linspace(0.005, 0.995, 127).round(4).tolist()))
    bins = FeatureBins((score, *numbers, CategoryBins("site", values), CategoryBins("os", ("a", "b", "c"))))
    return CalibrationEnsemble(
        "score", link, bins, tuple(binary_tree(rng, bins, link, n_leaves) for _ in range(n_trees))
    )


def binary_tree(rng: np.random.Generator, bins: FeatureBins, link: Link, n_leaves: int) -> CalibrationTree:
    """Growth without data, level by level: each leaf is cut in two, an unseen code joins the larger part."""
    feature, start, tables, filled = [-1], [0], [], 0
    allowed = [[np.arange(n) for n in bins.n_codes]]
    leaves = [0]
    while len(leaves) < n_leaves:
        node = leaves.pop(0)
        chosen = int(rng.choice([j for j, codes in enumerate(allowed[node]) if len(codes) > 2]))
        codes = allowed[node][chosen]
        known = codes[codes < bins[chosen].n_values]
        order = known if bins[chosen].ordered else rng.permutation(known)
        cut = int(rng.integers(1, len(order))) if len(order) > 1 else 1
        left, right = order[:cut], order[cut:]
        first = len(feature)
        table = np.full(bins[chosen].n_codes, first if len(left) >= len(right) else first + 1)
        table[left], table[right] = first, first + 1
        feature[node], start[node] = chosen, filled
        tables.append(table)
        filled += len(table)
        for child in (first, first + 1):
            below = list(allowed[node])
            below[chosen] = np.array([code for code in codes.tolist() if table[code] == child])
            feature.append(-1)
            start.append(0)
            allowed.append(below)
            leaves.append(child)
    n = len(feature)
    step = rng.uniform(0.8, 1.25, n) if link == "linear" else rng.normal(0.0, 0.1, n)
    count = np.full(n, 1000.0)
    return CalibrationTree(
        np.array(feature, np.int32),
        np.array(start, np.int64),
        np.concatenate(tables).astype(np.int32) if tables else np.empty(0, np.int32),
        step.round(6),
        count,
        count * 0.1,
        count * 0.1,
    )


def table_tree(
    rng: np.random.Generator, bins: FeatureBins, features: tuple[int, ...], link: Link = "odds", n_groups: int = 6
) -> CalibrationTree:
    """A table over the given features: codes in groups of near values, some entries end early or fall back."""
    feature, start, tables, filled = [-1], [0], [], 0
    level = [0]
    for chosen in features:
        below: list[int] = []
        for node in level:
            if node and rng.random() < 0.3:
                continue
            first, n_codes = len(feature), bins[chosen].n_codes
            size = int(rng.integers(2, n_groups + 1))
            table = first + rng.integers(0, size, n_codes)
            table[rng.permutation(n_codes)[:size]] = first + np.arange(min(size, n_codes))
            table[(rng.random(n_codes) < 0.2) & (np.arange(n_codes) > 0)] = -1
            children, numbered = np.unique(table[table >= 0], return_inverse=True)
            table[table >= 0] = first + numbered
            feature[node], start[node] = chosen, filled
            tables.append(table)
            filled += n_codes
            feature += [-1] * len(children)
            start += [0] * len(children)
            below += range(first, first + len(children))
        level = below
    n = len(feature)
    step = rng.uniform(0.7, 1.4, n) if link == "linear" else rng.normal(0.0, 0.2, n)
    parent = np.zeros(n, np.int64)
    for node, table in zip(np.flatnonzero(np.array(feature) >= 0), tables, strict=True):
        parent[np.unique(table[table >= 0])] = node
    count = np.where(np.array(feature) < 0, rng.integers(5, 500, n), 0).astype(float)
    sums = np.stack([count, np.floor(count * 0.1), count * 0.1 * rng.uniform(0.5, 2.0, n)])
    for node in range(n - 1, 0, -1):
        sums[:, parent[node]] += sums[:, node]
    table = np.concatenate([np.empty(0), *tables]).astype(np.int32)
    return CalibrationTree(np.array(feature, np.int32), np.array(start, np.int64), table, step.round(6), *sums)


def table_model(
    seed: int, link: Link = "odds", n_tables: int = 16, n_groups: int = 40, n_values: int = 300, n_binary: int = 0
) -> CalibrationEnsemble:
    """Tables over one to three of: a number of few values, one of many, two large categories; then binary trees."""
    rng = np.random.default_rng(seed)
    score = NumberBins("score", tuple(np.linspace(0.01, 0.99, 63).round(4).tolist()))
    hour = NumberBins("hour", tuple((np.arange(23) + 0.5).tolist()), tuple(map(float, range(24))))
    price = NumberBins("price", tuple(np.unique(rng.normal(size=63).round(3)).tolist()))
    airports = [CategoryBins(name, tuple(f"{name}_{i}" for i in range(n_values))) for name in ("origin", "goal")]
    bins = FeatureBins((score, hour, price, *airports, CategoryBins("flag", ("true", "false"), "boolean")))
    trees = []
    for t in range(n_tables):
        features = tuple(map(int, rng.permutation(len(bins))[: (2, 3, 2, 1)[t % 4]]))
        trees.append(table_tree(rng, bins, features, link, n_groups))
    trees += [binary_tree(rng, bins, link, 32) for _ in range(n_binary)]
    return CalibrationEnsemble("score", link, bins, tuple(trees))
