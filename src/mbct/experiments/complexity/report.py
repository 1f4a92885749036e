"""The README's section on complexity."""

from pathlib import Path
from typing import Any

import numpy as np

from mbct.experiments.canvas import COLOURS, figure
from mbct.experiments.complexity.measure import LOSSES
from mbct.experiments.markdown import table
from mbct.experiments.parts import Part, write

_SYMBOL = {"rows": "n", "features": "s", "trees": "k", "depth": "d", "views": "r"}
_COLOUR = {"mvce": "blue", "mvce-monte-carlo": "orange", "monte_carlo_metric": "orange"}


def report(results: dict[str, dict[str, Any]], out: Path, parts: list[Part]) -> str:
    """Draw the figure, write the table, return the section."""
    values = {part.name: part.parameters["values"] for part in parts}
    _draw(out / "figures" / "complexity.svg", results, values)
    rows = []
    for name, found in results.items():
        for loss, points in found.items():
            seconds = [point["seconds"] for point in points]
            label = LOSSES.get(loss, "the metric itself, Monte Carlo")
            span = f"{values[name][0]:,} to {values[name][-1]:,}"
            growth = f"{slope(values[name], seconds):.2f}"
            rows.append([f"{name} ({_SYMBOL[name]})", span, label, f"{seconds[0]:.4f}", f"{seconds[-1]:.4f}", growth])
    text = table(["what grows", "from … to", "loss", "seconds first", "seconds last", "exponent"], rows)
    write(out / "tables" / "complexity.md", text + "\n")
    return _words(results, values, parts, text)


def slope(values: list[int], seconds: list[float]) -> float:
    """Exponent of the growth: the slope of log seconds on log value.

    >>> round(slope([1, 2, 4], [0.1, 0.2, 0.4]), 6)
    1.0
    """
    return float(np.polyfit(np.log(values), np.log(seconds), 1)[0])


def _words(results: dict[str, Any], values: dict[str, list[int]], parts: list[Part], text: str) -> str:
    fixed = parts[0].parameters["fixed"]
    rows = results["rows"]
    times = rows["mvce-monte-carlo"][-1]["seconds"] / rows["mvce"][-1]["seconds"]
    return (
        "## 5. Complexity (appendix A.2)\n\n"
        "The paper states O(k·min(s,d)·s·r·n) for k trees, s features, depth d, r views and n rows. Training was timed "
        f"while one quantity grew and the others stayed at {fixed['rows']:,} rows, {fixed['features']} features, depth "
        f"{fixed['depth']}, {fixed['trees']} trees (least of {parts[0].parameters['best_of']} tries, data with a bias "
        "in every feature). An exponent of 1 is what the formula predicts, less where a fixed cost weighs, more "
        "for rows, since more of them allow more splits (bins hold 100 rows). The views of the training loss are "
        "fixed at 100, so growth with r is that of the metric it evaluates.\n\n"
        f"{text}\n\n"
        f"The closed form needs no shuffles: at {values['rows'][-1]:,} rows training by Monte Carlo took "
        f"{times:.0f} times as long. These are seconds, so no two runs agree on them; they are kept apart from the "
        "other "
        "numbers (`timings/`).\n\n"
        "![Growth of training time](figures/complexity.svg)"
    )


def _draw(path: Path, results: dict[str, dict[str, Any]], values: dict[str, list[int]]) -> None:
    with figure(path, 1, len(results), (2.5 * len(results), 3.0)) as (drawn, axes):
        handles = {}
        for axis, (name, found) in zip(axes[0], results.items(), strict=True):
            for loss, points in found.items():
                seconds = [point["seconds"] for point in points]
                (line,) = axis.plot(values[name], seconds, color=COLOURS[_COLOUR[loss]], marker="o", ms=4)
                handles[LOSSES.get(loss, LOSSES["mvce-monte-carlo"])] = line
                if loss != "mvce":
                    start = np.asarray(values[name]) / values[name][0] * seconds[0]
                    (claim,) = axis.plot(values[name], start, color=COLOURS["grey"], ls=":", lw=1.2)
                    handles["proportional"] = claim
            axis.set(xscale="log", yscale="log", xlabel=f"{name} ({_SYMBOL[name]})")
            axis.minorticks_off()
            axis.set_xticks(values[name], [f"{v:,}" if v < 1000 else f"{v // 1000}k" for v in values[name]])
        axes[0, 0].set_ylabel("seconds")
        axes[0, -1].set_title("the metric", fontsize=9)
        drawn.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)
