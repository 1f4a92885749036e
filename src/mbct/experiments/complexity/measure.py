"""Seconds of training as one quantity grows and the others stay."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct import MBCTCalibrator
from mbct.experiments.parts import Part
from mbct.experiments.settings import Settings
from mbct.metrics import mvce
from mbct.stats.logodds import sigmoid
from mbct.validation import FloatArray

EXPERIMENT = "complexity"
LOSSES = {"mvce": "closed form", "mvce-monte-carlo": "Monte Carlo, 100 views"}
FULL = {
    "rows": (2_500, 5_000, 10_000, 20_000, 40_000),
    "features": (2, 4, 8, 16),
    "trees": (1, 2, 4, 8),
    "depth": (1, 2, 3, 4, 5),
    "views": (10, 30, 100, 300, 1000),
}
QUICK = {"rows": (1_000, 2_000, 4_000), "features": (2, 4), "trees": (1, 2), "depth": (1, 2), "views": (10, 100)}
_BEST_OF = 2


def parts(settings: Settings) -> list[Part]:
    """One part for each quantity that grows."""
    grid = QUICK if settings.quick else FULL
    fixed = {"rows": 2_000 if settings.quick else 10_000, "features": 4, "trees": 2, "depth": 3}
    return [
        _part(name, {"values": list(values), "fixed": fixed, "seed": settings.seed, "best_of": _BEST_OF})
        for name, values in grid.items()
    ]


def _part(name: str, parameters: dict[str, Any]) -> Part:
    return Part(EXPERIMENT, name, parameters, lambda: _measure(name, parameters), timed=True)


def _measure(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    if name == "views":
        return {"monte_carlo_metric": [_metric_seconds(r, parameters) for r in parameters["values"]]}
    found: dict[str, Any] = {}
    for loss in LOSSES:
        settings = [{**parameters["fixed"], name: value} for value in parameters["values"]]
        # Compiling the kernels is no part of the growth.
        _fit({**settings[0], "rows": 1_000}, loss, parameters["seed"])
        found[loss] = [_fit(setting, loss, parameters["seed"]) for setting in settings]
    return found


def _fit(setting: dict[str, int], loss: str, seed: int) -> dict[str, float]:
    codes, y_prob, y_true = simulated(setting["rows"], setting["features"], seed)
    columns = {f"x{j}": codes[:, j] for j in range(setting["features"])} | {"p": y_prob}
    model = MBCTCalibrator(
        "p",
        preset="paper",
        categorical="all",
        min_bin_size=100,
        max_depth=setting["depth"],
        max_trees=setting["trees"],
        loss=loss,
    )
    seconds = _least_seconds(lambda: model.fit(columns, y_true))
    return {"seconds": seconds, "trees": float(len(model.model_.trees)), "rules": float(model.model_.n_rules)}


def _metric_seconds(n_views: int, parameters: dict[str, Any]) -> dict[str, float]:
    _, y_prob, y_true = simulated(parameters["fixed"]["rows"], 2, parameters["seed"])
    mvce(y_true, y_prob, bin_size=100, n_views=2)
    return {"seconds": _least_seconds(lambda: mvce(y_true, y_prob, bin_size=100, n_views=n_views))}


def _least_seconds(run: Callable[[], object]) -> float:
    """The least of a few tries: what others do on the machine only adds to it."""
    found = []
    for _ in range(_BEST_OF):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)


def simulated(n_rows: int, n_features: int, seed: int) -> tuple[npt.NDArray[np.int64], FloatArray, FloatArray]:
    """Rows with a bias in every feature, so that trees find something to split by at every depth."""
    rng = np.random.default_rng([seed, n_rows, n_features])
    codes = rng.integers(0, 4, (n_rows, n_features))
    y_prob = rng.beta(2.0, 6.0, n_rows)
    effects = rng.normal(0.0, 0.6 / np.sqrt(n_features), (n_features, 4))
    bias = effects[np.arange(n_features), codes].sum(axis=1)
    truth = sigmoid(np.log(y_prob) - np.log1p(-y_prob) + bias)
    return codes, y_prob, (rng.random(n_rows) < truth).astype(np.float64)
