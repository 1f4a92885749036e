"""Colours and axes that all displays share; the only place that asks for matplotlib."""

from typing import Any

from mbct.evaluation.diagnostics.subgroups import ratio_ticks
from mbct.lazy import optional

BEFORE = "#D55E00"
AFTER = "#0072B2"
NEUTRAL = "#6B7280"
PALETTE = (AFTER, BEFORE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, told apart by colour-blind readers."""
MARKERS = ("o", "D", "s", "^", "v", "P", "X")


def pyplot() -> Any:
    """``matplotlib.pyplot``, or one clear error."""
    return optional("plots need matplotlib: pip install 'mbct[plots]'", "matplotlib.pyplot")


def axes_for(ax: Any, width: float, height: float) -> Any:
    """``ax``, or new axes of that size in inches."""
    if ax is not None:
        return ax
    return pyplot().subplots(figsize=(width, height), layout="constrained")[1]


def tidy(ax: Any, *, grid: str | None = "both") -> None:
    """A quiet frame: no box, a faint grid behind the data."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color("#9CA3AF")
    ax.tick_params(color="#9CA3AF")
    ax.set_axisbelow(True)
    if grid is not None:
        ax.grid(visible=True, axis=grid, color="#E5E7EB", linewidth=0.8)


def ratio_axis(ax: Any, which: str, low: float, high: float) -> None:
    """A logarithmic axis of a ratio with plain numbers, 1 marked by a line."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis = ax.xaxis if which == "x" else ax.yaxis
    (ax.set_xscale if which == "x" else ax.set_yscale)("log")
    (ax.set_xlim if which == "x" else ax.set_ylim)(low, high)
    axis.set_major_locator(FixedLocator(ratio_ticks(low, high)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    (ax.axvline if which == "x" else ax.axhline)(1.0, color=NEUTRAL, linewidth=1.2, zorder=1)
