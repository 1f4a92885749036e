"""Colours and axes that all displays share; the only place that asks for matplotlib."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from mbct.errors import MissingDependencyError

BEFORE = "#D55E00"
AFTER = "#0072B2"
NEUTRAL = "#6B7280"
PALETTE = (AFTER, BEFORE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, told apart by colour-blind readers."""
MARKERS = ("o", "D", "s", "^", "v", "P", "X")


def pyplot() -> Any:
    """``matplotlib.pyplot``, or one clear error."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingDependencyError("plots need matplotlib: pip install 'mbct[plots]'") from error
    return plt


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


def ratio_ticks(low: float, high: float) -> list[float]:
    """Round ratios between two ends, finer where the range is narrow.

    >>> ratio_ticks(0.4, 2.5)
    [0.5, 0.7, 1.0, 1.5, 2.0]
    """
    fine = (0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.25)
    middle = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0)
    plain = (0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0)
    wide = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
    chosen = fine if high / low < 1.5 else middle if high / low < 3.5 else plain if high / low < 12 else wide
    return [tick for tick in chosen if low <= tick <= high]


def ratio_limits(values: Iterable[Any], widest: float = 20.0) -> tuple[float, float]:
    """Ends of a ratio axis that hold all finite values (numbers or arrays), with 1 inside and a little room.

    >>> ratio_limits([0.5, 2.0, float("inf")])
    (0.45..., 2.2...)
    """
    found = np.concatenate([np.ravel(np.asarray(each, dtype=np.float64)) for each in values])
    found = found[np.isfinite(found) & (found > 0)]
    low, high = (float(found.min()), float(found.max())) if len(found) else (1.0, 1.0)
    return max(min(low / 1.1, 0.9), 1.0 / widest), min(max(high * 1.1, 1.1), widest)
