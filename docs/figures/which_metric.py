"""Draw docs/images/which-metric.svg: what cancels, and which metric sees it."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

import mbct.metrics as metrics

BLUE, ORANGE, GREY = "#2a6f97", "#d1603d", "#5c677d"
SHADES = {"too high": "#adb5bd", "over-confident": BLUE, "cancels by site": ORANGE}


def sample(n=100_000):
    """The four data sets of the page."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.45, n)
    site = rng.choice(["a", "b"], n)
    truth = {
        "right": p,
        "too high": p / 1.2,
        "over-confident": 0.25 + 0.6 * (p - 0.25),
        "cancels by site": p * np.where(site == "a", 1 / 1.3, 2 - 1 / 1.3),
    }
    u = rng.random(n)
    return p, site, {name: (u < q).astype(int) for name, q in truth.items()}


def draw_levels(axis, p, site, y):
    """Label rate against mean prediction of 12 uniform-mass bins: all rows, and each site."""
    groups = {"site a": (site == "a", ORANGE), "all rows": (site != "", GREY), "site b": (site == "b", BLUE)}
    axis.plot([0, 0.6], [0, 0.6], color="black", linewidth=0.8, linestyle=":")
    for name, (mask, colour) in groups.items():
        order = np.argsort(p[mask])
        bins = [(p[mask][part].mean(), y[mask][part].mean()) for part in np.array_split(order, 12)]
        axis.plot(*zip(*bins, strict=True), color=colour, marker="o", markersize=4, linewidth=1.4)
        axis.annotate(name, bins[-1], xytext=(7, 0), textcoords="offset points", color=colour, va="center")
    axis.set(xlim=(0, 0.55), ylim=(0, 0.6), xlabel="mean prediction", ylabel="label rate")
    axis.set_title("‘Cancels by site’: right at every level,\nwrong on both sites", loc="left")


def draw_ratios(axis, p, site, labels):
    """Each metric over its value for right predictions, on a logarithmic axis."""
    by = {"site": site}
    measures = {
        "mvce, shuffled": lambda y: metrics.mvce(y, p, n_bins=100),
        "ece": lambda y: metrics.ece(y, p),
        "smooth_ece": lambda y: metrics.smooth_ece(y, p),
        "ecce": lambda y: metrics.ecce(y, p),
        "field_ece": lambda y: metrics.field_ece(y, p, site),
        "multicalibration": lambda y: metrics.multicalibration_error(y, p, by),
    }
    for row, measure in enumerate(measures.values()):
        chance = measure(labels["right"])
        axis.axhline(row, color="#e9ecef", linewidth=0.8, zorder=0)
        for offset, (name, colour) in zip((-0.18, 0, 0.18), SHADES.items(), strict=True):
            label = name if row == 0 else None
            axis.scatter(measure(labels[name]) / chance, row + offset, color=colour, s=42, label=label, zorder=3)
    axis.axvline(1, color="black", linewidth=0.8, linestyle=":")
    axis.set_xscale("log")
    axis.set_xticks([1, 3, 10, 30, 100], ["1 ×", "3 ×", "10 ×", "30 ×", "100 ×"])
    axis.minorticks_off()
    axis.set_yticks(range(len(measures)), list(measures))
    axis.invert_yaxis()
    axis.set_xlabel("value, relative to right predictions (1 = sees nothing)")
    axis.set_title("Which metric sees which error", loc="left")
    axis.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.45, -0.16), ncols=3, handletextpad=0.2)


def main():
    """Write the picture."""
    mpl.rcParams.update({"svg.hashsalt": "which-metric", "font.size": 10, "axes.titlesize": 11})
    p, site, labels = sample()
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), width_ratios=[1, 1.15], layout="constrained")
    draw_levels(left, p, site, labels["cancels by site"])
    draw_ratios(right, p, site, labels)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    target = Path(__file__).parents[1] / "images" / "which-metric.svg"
    target.parent.mkdir(exist_ok=True)
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main()
