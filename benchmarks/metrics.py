"""How long MVCE takes: Monte Carlo over 100 shuffled views, beside a numpy permutation loop and the closed form.

python benchmarks/metrics.py [rows ...]      (default: 1,000,000 and 10,000,000)
"""

import os
import sys
import time
from collections.abc import Callable

import numpy as np

import mbct.metrics as metrics
from mbct.evaluation.metrics.results import Table
from mbct.stats.multi_view import closed_form_mvce

N_VIEWS = 100
BIN_SIZE = 1000
LOOP_VIEWS = 10
"""Views that the numpy loop runs; its time is scaled up to 100."""


def sample(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels and predictions of an advertising kind: a rate of 9 %, some bias."""
    rng = np.random.default_rng(0)
    y_prob = rng.beta(0.5, 5.0, n_rows)
    return (rng.random(n_rows) < y_prob**1.05).astype(np.int8), y_prob


def permutation_loop(y_true: np.ndarray, y_prob: np.ndarray, n_views: int) -> float:
    """MVCE as one would write it in numpy."""
    rng = np.random.default_rng(0)
    residual = y_prob - y_true
    n_bins = len(residual) // BIN_SIZE
    views = [
        np.abs(rng.permutation(residual)[: n_bins * BIN_SIZE].reshape(n_bins, BIN_SIZE).mean(axis=1)).mean()
        for _ in range(n_views)
    ]
    return float(np.sqrt(np.mean(np.square(views))))


def closed_form(y_true: np.ndarray, y_prob: np.ndarray) -> float:
    """The closed form without the checks of the public metric."""
    residual = y_prob - y_true
    return float(closed_form_mvce(len(residual), residual.sum(), residual @ residual, BIN_SIZE))


def timed(task: Callable[[], float], repeats: int = 3) -> tuple[float, float]:
    """The result, and the least time of a few runs."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        value = task()
        seconds.append(time.perf_counter() - start)
    return value, min(seconds)


def main() -> None:
    """Print one line for each way and size."""
    sizes = [int(a.replace("_", "").replace(",", "")) for a in sys.argv[1:]] or [1_000_000, 10_000_000]
    metrics.mvce([0, 1], [0.2, 0.7])  # compiles the kernels
    rows: list[tuple[str, str, float, float, float]] = []
    for n_rows in sizes:
        y, p = sample(n_rows)
        loop, loop_seconds = timed(lambda y=y, p=p: permutation_loop(y, p, LOOP_VIEWS), 2)
        loop_seconds *= N_VIEWS / LOOP_VIEWS
        same: dict[str, Callable[[], float]] = {
            "mvce, 100 views": lambda y=y, p=p: metrics.mvce(y, p, bin_size=BIN_SIZE, n_views=N_VIEWS),
            "mvce, closed form": lambda y=y, p=p: metrics.mvce(y, p, bin_size=BIN_SIZE, method="closed-form"),
            "closed form on checked arrays": lambda y=y, p=p: closed_form(y, p),
        }
        others: dict[str, Callable[[], float]] = {
            "ece, 15 bins": lambda y=y, p=p: metrics.ece(y, p),
            "ece_sweep": lambda y=y, p=p: metrics.ece_sweep(y, p),
            "smooth_ece": lambda y=y, p=p: metrics.smooth_ece(y, p),
            "ecce": lambda y=y, p=p: metrics.ecce(y, p),
        }
        rows.append((f"{n_rows:,}", "numpy permutation loop", loop, loop_seconds, 1.0))
        for name, task in {**same, **others}.items():
            value, seconds = timed(task)
            ratio = loop_seconds / seconds if name in same else float("nan")
            rows.append((f"{n_rows:,}", name, float(value), seconds, ratio))
    columns = ("rows", "way", "value", "seconds", "times faster")
    print(Table(tuple(zip(columns, map(tuple, zip(*rows, strict=True)), strict=True))))
    print(f"{os.cpu_count()} cores; the numpy loop ran {LOOP_VIEWS} of its {N_VIEWS} views, its time is scaled up")


if __name__ == "__main__":
    main()
