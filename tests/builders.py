"""Small builders that many tests share: random models, random raw rows, simulated data."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mbct.binning.features import CategoryBins, FeatureBins, NumberBins
from mbct.boosting.model import CalibrationEnsemble, Pattern
from mbct.tree.model import CalibrationTree

AWKWARD_VALUES = (
    "a",
    "b",
    "C c",
    "O'Hare",
    'say "hi"',
    "'; DROP TABLE x; --",
    "naïve",
    "100%",
    "",
    " ",
    "NULL",
    "a\\b",
)


def random_bins(rng: np.random.Generator, n_features: int = 4) -> FeatureBins:
    """The score, then numbers and categories of several types in turn."""
    features: list[Any] = [
        NumberBins("score", tuple(np.sort(rng.choice(np.arange(1, 100), 7, False) / 100.0).tolist()))
    ]
    for j in range(n_features):
        kind = j % 4
        if kind == 0:
            edges = np.unique(rng.normal(size=rng.integers(1, 6)).round(2) * 10)
            features.append(NumberBins(f"number {j}", tuple(edges.tolist())))
        elif kind == 1:
            values = rng.permutation(AWKWARD_VALUES)[: rng.integers(2, len(AWKWARD_VALUES))]
            features.append(CategoryBins(f"text_{j}", tuple(map(str, values)), "string"))
        elif kind == 2:
            values = np.unique(rng.integers(-5, 20, rng.integers(2, 8)))
            features.append(CategoryBins(f"whole_{j}", tuple(map(str, values)), "integer"))
        else:
            features.append(CategoryBins(f"flag_{j}", ("true", "false"), "boolean"))
    return FeatureBins(tuple(features))


def random_tree(rng: np.random.Generator, bins: FeatureBins, pattern: Pattern, max_nodes: int = 12) -> CalibrationTree:
    """A tree of random multiway and binary splits; some codes stop at inner nodes."""
    feature, tables, start, filled = [-1], [], [0], 0
    node = 0
    while node < len(feature):
        if len(feature) < max_nodes and rng.random() < 0.7:
            chosen = int(rng.integers(len(bins)))
            n_children = int(rng.integers(2, 4))
            first = len(feature)
            table = rng.integers(0, n_children, bins[chosen].n_codes) + first
            if bins[chosen].ordered:
                table[: bins[chosen].n_values] = np.sort(table[: bins[chosen].n_values])
            table[rng.random(len(table)) < 0.2] = -1
            feature[node] = chosen
            start[node] = filled
            tables.append(table)
            filled += len(table)
            feature.extend([-1] * n_children)
            start.extend([0] * n_children)
        node += 1
    n = len(feature)
    step = rng.uniform(0.3, 2.5, n) if pattern == "linear" else rng.normal(0.0, 0.7, n)
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


def random_model(seed: int, pattern: Pattern = "odds", n_trees: int = 3, n_features: int = 4) -> CalibrationEnsemble:
    """A model with every kind of feature and split; the same seed gives the same model."""
    rng = np.random.default_rng(seed)
    bins = random_bins(rng, n_features)
    return CalibrationEnsemble("score", pattern, bins, tuple(random_tree(rng, bins, pattern) for _ in range(n_trees)))


def random_rows(seed: int, model: CalibrationEnsemble, n_rows: int = 200) -> dict[str, list[Any]]:
    """Raw columns for a model: known, missing (None) and unseen values, numbers on and beside the edges."""
    rng = np.random.default_rng(seed)
    columns: dict[str, list[Any]] = {"score": rng.beta(0.6, 1.5, n_rows).tolist()}
    for feature in model.bins.features[1:]:
        columns[feature.name] = [_random_value(rng, feature) for _ in range(n_rows)]
    return columns


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
