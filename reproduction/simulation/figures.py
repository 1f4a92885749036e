"""Curves and heat maps of Ê_bias."""

from pathlib import Path
from typing import Any

import numpy as np

from reproduction.canvas import COLOURS, figure
from reproduction.simulation.measure import CURVE_BINS
from reproduction.simulation.settings import Simulation

REFERENCE_TEXT = {"p1": "TCE, p = 1", "p2": "TCE, p = 2", "printed": "the printed TCE"}
_LINES = {
    f"ece-{CURVE_BINS}": ("ECE", "blue", "o"),
    "ece_sweep": ("ECE_sweep", "green", "s"),
    f"mvce-{CURVE_BINS}": ("MVCE", "orange", "D"),
}


def draw_curves(path: Path, simulation: Simulation, by_size: dict[int, dict[str, Any]]) -> None:
    """What each metric says at each sample size, and how far that is from each notion of the truth."""
    sizes = sorted(by_size)
    truths = by_size[sizes[0]]["references"]
    with figure(path, 1, 1 + len(truths), (3.0 * (1 + len(truths)), 3.2)) as (drawn, axes):
        first = axes[0, 0]
        for name, (label, colour, marker) in _LINES.items():
            means = [by_size[n]["metrics"][name]["mean"] for n in sizes]
            first.plot(sizes, means, color=COLOURS[colour], marker=marker, ms=4, label=label)
        for (name, truth), style in zip(truths.items(), ("--", "-", ":"), strict=False):
            first.axhline(truth, color=COLOURS["grey"], ls=style, lw=1.2, label=f"{REFERENCE_TEXT[name]}: {truth:.4f}")
        first.set(title="mean value", ylabel="calibration error", ylim=(0.0, None))
        for axis, name in zip(axes[0, 1:], truths, strict=True):
            for metric, (_, colour, marker) in _LINES.items():
                bias = [by_size[n]["metrics"][metric]["bias"][name] for n in sizes]
                axis.plot(sizes, bias, color=COLOURS[colour], marker=marker, ms=4)
            axis.set(title=f"Ê_bias against {REFERENCE_TEXT[name]}", ylim=(0.0, None))
        for axis in axes[0]:
            axis.set_xscale("log")
            axis.set_xlabel("sample size n")
            axis.minorticks_off()
            shown = sizes[:: -(-len(sizes) // 4)]  # four at most: more would touch
            axis.set_xticks(shown, [f"{n:,}" for n in shown])
        handles, labels = first.get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        drawn.suptitle(simulation.title)


def draw_heat_maps(path: Path, simulation: Simulation, by_size: dict[int, dict[str, Any]]) -> None:
    """Ê_bias of ECE and MVCE by number of bins and of samples, a row for each notion of the truth."""
    sizes = sorted(by_size)
    truths = list(by_size[sizes[0]]["references"])
    bins = sorted({int(name.split("-")[1]) for n in sizes for name in by_size[n]["metrics"] if name.startswith("ece-")})
    grids = {(truth, metric): _grid(by_size, sizes, bins, truth, metric) for truth in truths for metric in _HEAT}
    top = max(float(np.nanmax(grid)) for grid in grids.values())
    size = (max(2.2 + 0.62 * 2 * len(sizes), 6.5), 0.9 + len(truths) * (0.8 + 0.3 * len(bins)))
    with figure(path, len(truths), 2, size) as (drawn, axes):
        for i, truth in enumerate(truths):
            for j, metric in enumerate(_HEAT):
                _draw_grid(axes[i, j], grids[truth, metric], sizes, bins, top)
                axes[i, j].set_title(f"{_HEAT[metric]} against {REFERENCE_TEXT[truth]}")
            axes[i, 0].set_ylabel("bins")
        for axis in axes[-1]:
            axis.set_xlabel("sample size n")
        drawn.suptitle(f"Ê_bias, {simulation.title}")


_HEAT = {"ece": "ECE", "mvce": "MVCE"}


def _grid(
    by_size: dict[int, dict[str, Any]], sizes: list[int], bins: list[int], truth: str, metric: str
) -> np.ndarray[Any, Any]:
    empty = {"bias": {truth: np.nan}}
    return np.array([[by_size[n]["metrics"].get(f"{metric}-{b}", empty)["bias"][truth] for n in sizes] for b in bins])


def _draw_grid(axis: Any, grid: np.ndarray[Any, Any], sizes: list[int], bins: list[int], top: float) -> None:
    axis.imshow(grid, cmap="YlOrRd", vmin=0.0, vmax=top, aspect="auto", origin="lower")
    axis.grid(visible=False)
    axis.set_xticks(range(len(sizes)), [f"{n:,}" for n in sizes], fontsize=7)
    axis.set_yticks(range(len(bins)), [str(b) for b in bins], fontsize=7)
    for (i, j), value in np.ndenumerate(grid):
        if np.isfinite(value):
            axis.text(
                j,
                i,
                f"{value:.3f}",
                ha="center",
                va="center",
                fontsize=7,
                color="white" if value > 0.6 * top else "#222222",
            )
