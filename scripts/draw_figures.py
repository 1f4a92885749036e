"""Draw the figures of docs/how-it-works.md into docs/images: the same code gives the same files."""

from pathlib import Path

import matplotlib as mpl
import numpy as np

from mbct import MBCTCalibrator
from mbct.metrics import mvce
from mbct.simulation import simulate

mpl.use("Agg")
mpl.rcParams.update({"svg.hashsalt": "mbct", "svg.fonttype": "path", "font.size": 10})

import matplotlib.pyplot as plt  # noqa: E402 - after the back end is chosen

FOLDER = Path(__file__).parent.parent / "docs" / "images"
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#e69f00", "#009e73", "#8a8a8a"


def save(figure: plt.Figure, name: str) -> None:
    """Write one figure without the date."""
    figure.savefig(FOLDER / name, metadata={"Date": None}, facecolor="white")
    plt.close(figure)


def draw_cells() -> None:
    """Rows with equal codes on the left, the cells that stand for them on the right."""
    rows = [("mobile", "low", 0.10, 0), ("mobile", "low", 0.12, 1), ("mobile", "low", 0.11, 0)]
    rows += [("desktop", "low", 0.09, 0), ("desktop", "high", 0.41, 1), ("desktop", "high", 0.45, 0)]
    keys = list(dict.fromkeys(row[:2] for row in rows))
    colours = dict(zip(keys, ("#cfe5f3", "#fbe7bf", "#cbe9df"), strict=True))
    cells = []
    for key in keys:
        p = np.array([row[2] for row in rows if row[:2] == key])
        y = np.array([row[3] for row in rows if row[:2] == key])
        sums = (len(p), y.sum(), p.sum(), (p**2).sum(), (p * y).sum())
        cells.append((*key, *(f"{value:.4g}" for value in sums)))
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 2.5), width_ratios=(4, 7), layout="constrained")
    for axes, content, header, title in (
        (left, [(*row[:2], f"{row[2]:.2f}", str(row[3])) for row in rows], ("device", "p bin", "p", "y"), "rows"),
        (right, cells, ("device", "p bin", "count", "Σy", "Σp", "Σp²", "Σpy"), "cells"),
    ):
        axes.axis("off")
        axes.set_title(title, loc="left")
        fill = [[colours[row[:2]]] * len(header) for row in content]
        table = axes.table(content, cellColours=fill, colLabels=header, loc="upper center", cellLoc="center")
        table.scale(1.0, 1.25)
    save(figure, "cells.svg")


def draw_closed_form() -> None:
    """The closed form as a line, shuffles as points."""
    simulation = simulate("clicks", 20_000, seed=1)
    label, score = simulation.columns["click"], simulation.columns["pctr"]
    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    counts = np.unique(np.geomspace(4, 1000, 40).astype(int))
    for y_prob, colour, name in ((score, ORANGE, "biased"), (simulation.truth, BLUE, "calibrated")):
        line = [float(mvce(label, y_prob, n_bins=int(n), method="closed-form")) for n in counts]
        some = counts[::5]
        dots = [float(mvce(label, y_prob, n_bins=int(n), n_views=100)) for n in some]
        axes.plot(counts, line, color=colour, label=f"{name}: closed form")
        axes.plot(some, dots, "o", color=colour, markersize=4, label=f"{name}: 100 shuffles")
    axes.set(xscale="log", xlabel="bins in a view (20,000 rows)", ylabel="MVCE")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, "closed-form.svg")


def draw_presets() -> None:
    """What each preset multiplies predictions by, beside the truth."""
    fitting, held_out = simulate("clicks", 60_000, seed=1), simulate("clicks", 20_000, seed=2)
    features = {name: values for name, values in fitting.columns.items() if name != "click"}
    device, night, pctr = (held_out.columns[name] for name in ("device", "night", "pctr"))
    segments = {
        "mobile": (device == "mobile", BLUE),
        "desktop by day": ((device == "desktop") & ~night, GREEN),
        "desktop by night": ((device == "desktop") & night, ORANGE),
    }
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
    for axes, preset in zip(panels, ("paper", "default"), strict=True):
        model = MBCTCalibrator("pctr", preset=preset).fit(features, fitting.columns["click"])
        ratio = model.calibrate({name: held_out.columns[name] for name in features}) / pctr
        for name, (rows, colour) in segments.items():
            seen = rows & (pctr > 0.01) & (pctr < 0.4)
            axes.plot(pctr[seen], ratio[seen], ".", color=colour, markersize=2, alpha=0.5, label=name)
            axes.axhline(float(np.median(held_out.truth[rows] / pctr[rows])), color=colour, linewidth=1)
        axes.set(xlabel="prediction", title=f"preset {preset}", ylim=(0.3, 2.2))
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("calibrated / prediction")
    panels[1].legend(loc="upper right", frameon=False, fontsize=8, markerscale=5)
    for axes in panels:
        axes.set_rasterization_zorder(3)
    save(figure, "presets.svg")


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    draw_cells()
    draw_closed_form()
    draw_presets()
