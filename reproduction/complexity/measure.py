"""Processor seconds of training as one quantity grows and the others stay."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from mbct import MBCTCalibrator
from mbct.metrics import mvce
from reproduction.arrays import FloatArray
from reproduction.parts import SECONDS, Part
from reproduction.settings import Settings

EXPERIMENT = "complexity"
CLOSED_FORM, MONTE_CARLO = "mvce", "mvce-monte-carlo"
LOSSES = {CLOSED_FORM: "closed form", MONTE_CARLO: "Monte Carlo"}
FULL = {
    "rows": (2_500, 5_000, 10_000, 20_000, 40_000),
    "features": (2, 4, 8, 16),
    "trees": (1, 2, 4, 8),
    "depth": (1, 2, 3, 4, 5),
    "views": (10, 30, 100, 300, 1000),
}
QUICK = {"rows": (1_000, 2_000, 4_000), "features": (2, 4), "trees": (1, 2), "depth": (1, 2), "views": (10, 100)}
BIN_SIZE = 100
_BEST_OF = 3
_COST, _QUICK_COST = 8.0, 1.0


def parts(settings: Settings) -> list[Part]:
    """One part for each quantity that grows."""
    grid = QUICK if settings.quick else FULL
    fixed = {"rows": 2_000 if settings.quick else 10_000, "features": 4, "trees": 2, "depth": 3}
    common = {"fixed": fixed, "seed": settings.seed, "best_of": _BEST_OF, "bin_size": BIN_SIZE}
    return [_part(settings, name, {**common, "values": list(values)}) for name, values in grid.items()]


def _part(settings: Settings, name: str, parameters: dict[str, Any]) -> Part:
    cost = _QUICK_COST if settings.quick else _COST
    measure = _measure_views if name == "views" else partial(_measure, name)
    return Part(EXPERIMENT, name, parameters, partial(measure, parameters), __name__, cost, timed=True)


def _measure(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """What each loss grew, which is the same in every run, and how long it took, which is not."""
    grown: dict[str, Any] = {}
    seconds: dict[str, list[float]] = {}
    for loss in LOSSES:
        settings = [{**parameters["fixed"], name: value} for value in parameters["values"]]
        # Compiling the kernels is no part of the growth.
        _fit({**settings[0], "rows": 1_000}, loss, parameters["seed"])
        found = [_fit(setting, loss, parameters["seed"]) for setting in settings]
        grown[loss] = [model for model, _ in found]
        seconds[loss] = [taken for _, taken in found]
    return {"grown": grown, SECONDS: seconds}


def _fit(setting: dict[str, int], loss: str, seed: int) -> tuple[dict[str, float], float]:
    codes, y_prob, y_true = simulated(setting["rows"], setting["features"], seed)
    columns = {f"x{j}": codes[:, j] for j in range(setting["features"])} | {"p": y_prob}
    model = MBCTCalibrator(
        "p",
        preset="paper",
        categorical="all",
        min_bin_size=BIN_SIZE,
        max_depth=setting["depth"],
        max_trees=setting["trees"],
        n_threads=1,
        loss=loss,
    )
    taken = _least_seconds(lambda: model.fit(columns, y_true))
    after = mvce(y_true, model.calibrate(columns), bin_size=BIN_SIZE, method="closed-form")
    grown = {"trees": len(model.model_.trees), "rules": model.model_.n_rules, "mvce_after": float(after)}
    return grown, taken


def _measure_views(parameters: dict[str, Any]) -> dict[str, Any]:
    """The metric by Monte Carlo over more and more views, and in closed form."""
    _, y_prob, y_true = simulated(parameters["fixed"]["rows"], 2, parameters["seed"])

    def monte_carlo(n_views: int) -> float:
        return float(mvce(y_true, y_prob, bin_size=BIN_SIZE, n_views=n_views, seed=parameters["seed"]))

    def closed_form() -> float:
        return float(mvce(y_true, y_prob, bin_size=BIN_SIZE, method="closed-form"))

    monte_carlo(2)
    closed_form()
    values = parameters["values"]
    return {
        "mvce": {MONTE_CARLO: [monte_carlo(r) for r in values], CLOSED_FORM: [closed_form() for _ in values]},
        SECONDS: {
            MONTE_CARLO: [_least_seconds(partial(monte_carlo, r)) for r in values],
            CLOSED_FORM: [_least_seconds(closed_form) for _ in values],
        },
    }


def _least_seconds(run: Callable[[], object]) -> float:
    """The least processor time of a few tries: what others do on the machine adds little to it."""
    found = []
    for _ in range(_BEST_OF):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def simulated(n_rows: int, n_features: int, seed: int) -> tuple[npt.NDArray[np.int64], FloatArray, FloatArray]:
    """Rows with a bias in every feature, so that trees find something to split by at every depth."""
    rng = np.random.default_rng([seed, n_rows, n_features])
    codes = rng.integers(0, 4, (n_rows, n_features))
    y_prob = rng.beta(2.0, 6.0, n_rows)
    effects = rng.normal(0.0, 0.6 / np.sqrt(n_features), (n_features, 4))
    bias = effects[np.arange(n_features), codes].sum(axis=1)
    truth = expit(logit(y_prob) + bias)
    return codes, y_prob, (rng.random(n_rows) < truth).astype(np.float64)
