"""The in-depth figures."""

from pathlib import Path
from typing import Any

import numpy as np

from reproduction.canvas import COLOURS, figure
from reproduction.offline.methods import BASE, COMPETITORS, DEFAULT, LOSSES, MBCT, ONE_TREE, TITLES
from reproduction.offline.results import Repetitions, over_repetitions
from reproduction.offline.subgroups import DIVISIONS, N_GROUPS

_STYLES = {
    BASE: ("grey", "o"),
    "platt": ("blue", "s"),
    "beta": ("teal", "^"),
    "histogram": ("green", "v"),
    "isotonic": ("violet", "D"),
    "scaling-binning": ("brown", "P"),
    ONE_TREE: ("orange", "X"),
    DEFAULT: ("red", "*"),
}
_LOSS_TITLES = {"mbct-ece": "trained on ECE", "mbct-ece-sweep": "trained on ECE_sweep"}
_DIVISION_TITLES = {
    "prediction": "parts by base prediction",
    "probe": "parts by {probe}, unseen by both",
    "random": "random parts: noise alone",
}


def differences(repetitions: Repetitions, method: str) -> tuple[list[int], list[float], list[float]]:
    """MVCE of a method less that of MBCT as printed, by bin size: mean and half of its interval."""
    sizes = repetitions[0]["mvce_by_bin_size"]["sizes"]

    def at(i: int) -> Any:
        def value(repetition: dict[str, Any]) -> float:
            methods = repetition["mvce_by_bin_size"]["methods"]
            return float(methods[method][i] - methods[MBCT][i])

        return over_repetitions(repetitions, value)

    found = [at(i) for i in range(len(sizes))]
    widths = [0.0 if s.n < 2 else s.half_width for s in found]
    return sizes, [s.mean for s in found], widths


def draw_by_bin_size(path: Path, datasets: dict[str, Repetitions]) -> None:
    """MVCE less that of MBCT, under many bin sizes, a panel for each data set."""
    _draw_differences(path, datasets, {m: TITLES[m] for m in _STYLES}, _STYLES, bands=False)


def draw_losses(path: Path, datasets: dict[str, Repetitions]) -> None:
    """MVCE of models trained on other losses, less that of the one trained on MVCE."""
    styles = dict(zip(_LOSS_TITLES, (("blue", "o"), ("green", "s")), strict=True))
    _draw_differences(path, datasets, _LOSS_TITLES, styles, bands=True)


def _draw_differences(
    path: Path,
    datasets: dict[str, Repetitions],
    titles: dict[str, str],
    styles: dict[str, tuple[str, str]],
    *,
    bands: bool,
) -> None:
    n_columns = min(3, len(datasets))
    n_rows = -(-len(datasets) // n_columns)
    with figure(path, n_rows, n_columns, (3.4 * n_columns, 2.6 * n_rows + 0.7)) as (drawn, axes):
        for axis in axes.flat[len(datasets) :]:
            axis.set_visible(False)
        for axis, repetitions in zip(axes.flat, datasets.values(), strict=False):
            for method in titles:
                sizes, mean, width = differences(repetitions, method)
                colour, marker = styles[method]
                middle = 1e4 * np.asarray(mean)
                axis.plot(sizes, middle, color=COLOURS[colour], marker=marker, ms=4, lw=1.2, label=titles[method])
                if bands:
                    half = 1e4 * np.asarray(width)
                    axis.fill_between(sizes, middle - half, middle + half, color=COLOURS[colour], alpha=0.12, lw=0)
            axis.axhline(0.0, color="black", lw=1.0)
            if BASE in titles:
                _limit(axis, repetitions, [method for method in titles if method != BASE])
            axis.set_xscale("log")
            axis.minorticks_off()
            shown = sizes[::2]
            axis.set_xticks(shown, [f"{size:,}" for size in shown])
            axis.set(title=repetitions[0]["dataset"]["title"], xlabel="bin size (rows)")
        for row in axes:
            row[0].set_ylabel("MVCE − MVCE of MBCT (×10⁻⁴)")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))


def _limit(axis: Any, repetitions: Repetitions, methods: list[str]) -> None:
    """Heights that show ``methods``: the base, where it is far off, may leave the panel."""
    means = [1e4 * mean for method in methods for mean in differences(repetitions, method)[1]]
    low, high = min([0.0, *means]), max([0.0, *means])
    margin = 0.25 * (high - low) or 1.0
    axis.set_ylim(low - margin, high + 2.0 * margin)


def draw_subgroups(path: Path, repetition: dict[str, Any]) -> None:
    """PUD of four parts of five random bins, MBCT and histogram binning, for each way to divide a bin."""
    found, described = repetition["subgroups"], repetition["dataset"]
    highest = 2.6
    with figure(path, 2, len(DIVISIONS), (3.3 * len(DIVISIONS), 4.6), sharey=True) as (drawn, axes):
        for i, (method, title) in enumerate((("mbct", "MBCT as printed"), ("histogram", "Histogram binning"))):
            for j, division in enumerate(DIVISIONS):
                axis, bars = axes[i, j], found[method][division]
                for b, ratios in enumerate(bars["chosen"]):
                    for g, ratio in enumerate(ratios):
                        x = b + (g - (N_GROUPS - 1) / 2) * 0.18
                        _dot(axis, x, ratio, highest, COLOURS["orange" if method == "mbct" else "green"])
                axis.axhline(1.0, color="black", lw=1.0)
                axis.set_xticks(range(len(bars["chosen"])), [f"{rows:,}" for rows in bars["rows"]])
                axis.set_ylim(0.0, highest + 0.6)
                axis.set_title(_DIVISION_TITLES[division].format(probe=described["probe"]) if i == 0 else "")
                axis.text(
                    0.98,
                    0.97,
                    f"relative error over all bins {bars['error']:.2f}",
                    transform=axis.transAxes,
                    ha="right",
                    va="top",
                    fontsize=8,
                )
            axes[i, 0].set_ylabel(f"{title}\nPUD of each part")
        for axis in axes[-1]:
            axis.set_xlabel("bin (its test rows)")
        drawn.suptitle(f"{described['title']}: four parts of five random bins; 1 is right, an arrow is beyond the axis")


def _dot(axis: Any, x: float, ratio: float | None, highest: float, colour: str) -> None:
    """A stem from 1 to the ratio; an arrow where it is beyond the axis or no positive was met."""
    if ratio is None or ratio > highest:
        axis.plot([x, x], [1.0, highest], color=colour, lw=1.2, alpha=0.5)
        axis.plot([x], [highest], marker="^", color=colour, ms=5)
        return
    axis.plot([x, x], [1.0, ratio], color=colour, lw=1.2, alpha=0.6)
    axis.plot([x], [ratio], marker="o", color=colour, ms=4)


def draw_growth(path: Path, repetition: dict[str, Any]) -> None:
    """The top three layers of the first tree: local loss in blue, global loss in orange (Figure 7)."""
    layers = _layers(repetition["growth"]["splits"])
    position = {
        record["node"]: (i, depth, len(layer)) for depth, layer in enumerate(layers) for i, record in enumerate(layer)
    }
    with figure(path, 1, 1, (10.0, 1.2 + 1.5 * max(len(layers), 1))) as (drawn, axes):
        axis = axes[0, 0]
        axis.set_axis_off()
        axis.set(xlim=(0.0, 1.0), ylim=(-max(len(layers), 1) + 0.35, 0.55))
        for layer in layers:
            for record in layer:
                x, y = _place(position[record["node"]])
                for child in record["children"]:
                    if child in position:
                        cx, cy = _place(position[child])
                        axis.plot([x, cx], [y - 0.25, cy + 0.25], color="#aaaaaa", lw=1.0)
                _draw_node(axis, record, x, y)
        drawn.suptitle(
            f"{repetition['dataset']['title']}: top layers of the first tree, the {_PER_LAYER} largest splits of each\n"
            "local MVCE before → after in blue, global MVCE after the split in orange (×10⁻⁴)",
            fontsize=9,
        )


_PER_LAYER = 5


def _layers(splits: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Splits by depth: the largest nodes of each layer among the children of those shown above."""
    layers: list[list[dict[str, Any]]] = []
    shown = {0}
    for depth in sorted({record["depth"] for record in splits}):
        layer = [record for record in splits if record["depth"] == depth and record["node"] in shown]
        layer = sorted(sorted(layer, key=lambda r: -r["count"])[:_PER_LAYER], key=lambda r: r["node"])
        if not layer:
            break
        layers.append(layer)
        shown = {child for record in layer for child in record["children"]}
    return layers


def _place(position: tuple[int, int, int]) -> tuple[float, float]:
    i, depth, n = position
    return (i + 0.5) / n, -float(depth)


def _draw_node(axis: Any, record: dict[str, Any], x: float, y: float) -> None:
    box = {"boxstyle": "round,pad=0.45", "fc": "white", "ec": "#888888"}
    blank = "\n\n\n\n"
    axis.text(x, y, f"{'M' * 15}{blank}", ha="center", va="center", fontsize=8, color="white", bbox=box)
    lines = (
        (0.165, record["feature"], "black", "bold"),
        (0.055, f"{record['count']:,.0f} rows, {record['n_children']} children", "#444444", "normal"),
        (
            -0.055,
            f"{1e4 * record['node_loss_before']:.2f} → {1e4 * record['node_loss_after']:.2f}",
            COLOURS["blue"],
            "normal",
        ),
        (-0.165, f"{1e4 * record['ensemble_loss']:.3f}", COLOURS["orange"], "normal"),
    )
    for dy, text, colour, weight in lines:
        axis.text(x, y + dy, text, ha="center", va="center", fontsize=8, color=colour, weight=weight)


def loss_models() -> tuple[str, ...]:
    """Models of the ablation beside MBCT."""
    return tuple(model for model in LOSSES.values() if model != MBCT)


def competitors() -> tuple[str, ...]:
    """Methods that the paper sets against MBCT in its figure."""
    return ("base", *COMPETITORS)
