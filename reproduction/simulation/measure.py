"""Repeated draws of each simulation and the metrics' values on them."""

from functools import partial
from typing import Any

import numpy as np

from mbct.metrics import ece, ece_sweep, mvce
from reproduction.parts import Part
from reproduction.settings import Settings
from reproduction.simulation.settings import SIMULATIONS, Simulation

EXPERIMENT = "metrics"
CURVE_BINS = 32
"""Bins of ECE and MVCE in the curves, as printed under the paper's figure."""
METRICS = ("ece", "ece_sweep", "mvce")
_SECONDS = 3.5e-9
"""For each row, number of bins, repetition and view, as measured."""


def parts(settings: Settings) -> list[Part]:
    """One part for each simulation and sample size."""
    sizes = (400, 1600) if settings.quick else (200, 400, 800, 1600, 3200, 6400, 12800)
    bins = (4, 32, 128) if settings.quick else (4, 8, 16, 32, 64, 128, 256)
    repetitions = 20 if settings.quick else 200
    views = 20 if settings.quick else 100
    return [_part(simulation, n, bins, repetitions, views, settings.seed) for simulation in SIMULATIONS for n in sizes]


def _part(simulation: Simulation, n: int, bins: tuple[int, ...], repetitions: int, views: int, seed: int) -> Part:
    parameters: dict[str, Any] = {
        "simulation": simulation.name,
        "n": n,
        "bins": [b for b in bins if b <= n // 2],
        "repetitions": repetitions,
        "views": views,
        "norm": 2,
        "seed": seed,
    }
    cost = _SECONDS * n * len(parameters["bins"]) * repetitions * views
    compute = partial(_measure, simulation, parameters)
    return Part(EXPERIMENT, f"{simulation.name}-{n}", parameters, compute, __name__, cost)


def _measure(simulation: Simulation, parameters: dict[str, Any]) -> dict[str, Any]:
    """Values of every metric over the repetitions, and the mean distance to each notion of the truth."""
    n, bins, views = parameters["n"], parameters["bins"], parameters["views"]
    values: dict[str, list[float]] = {}
    for repetition in range(parameters["repetitions"]):
        rng = np.random.default_rng([parameters["seed"], repetition, n])
        p, y = simulation.draw(n, rng)
        values.setdefault("ece_sweep", []).append(float(ece_sweep(y, p, norm=2)))
        for b in bins:
            values.setdefault(f"ece-{b}", []).append(float(ece(y, p, n_bins=b, norm=2)))
            shuffled = mvce(y, p, n_bins=b, n_views=views, norm=2, seed=parameters["seed"] + repetition)
            values.setdefault(f"mvce-{b}", []).append(float(shuffled))
    truths = references(simulation)
    return {
        "references": truths,
        "bias": simulation.bias(),
        "metrics": {name: _summary(np.asarray(found), truths) for name, found in values.items()},
    }


def references(simulation: Simulation) -> dict[str, float]:
    """What a metric may be compared with: equation (tce) for p = 1 and 2, and the printed value where there is one."""
    found = {"p1": simulation.tce(1.0), "p2": simulation.tce(2.0)}
    return found if simulation.printed_tce is None else {**found, "printed": simulation.printed_tce}


def _summary(values: np.ndarray, truths: dict[str, float]) -> dict[str, Any]:
    return {
        "mean": float(values.mean()),
        "deviation": float(values.std(ddof=1)),
        "bias": {name: float(np.abs(values - truth).mean()) for name, truth in truths.items()},
    }
