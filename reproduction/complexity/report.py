"""The README's section on complexity."""

from pathlib import Path
from typing import Any

import numpy as np

from reproduction.canvas import COLOURS, figure, plain_log_ticks
from reproduction.complexity.measure import CLOSED_FORM, LOSSES, MONTE_CARLO
from reproduction.markdown import table
from reproduction.parts import Finished, write

_SYMBOL = {"rows": "n", "features": "s", "trees": "k", "depth": "d", "views": "r"}
_COLOUR = {CLOSED_FORM: "blue", MONTE_CARLO: "orange"}


def report(finished: dict[str, Finished], out: Path) -> str:
    """Draw the figure, write the tables, return the section."""
    _draw(out / "figures" / "complexity.svg", finished)
    growth, models = _growth_table(finished), _model_table(finished)
    write(out / "tables" / "complexity.md", growth + "\n")
    write(out / "tables" / "complexity-losses.md", models + "\n")
    return _words(finished, growth, models)


def formula(name: str, fixed: dict[str, int], values: list[int]) -> list[float]:
    """k·min(s,d)·s·r·n as one quantity takes each of its values, relative to the first.

    >>> formula("features", {"rows": 1, "features": 4, "trees": 2, "depth": 3}, [2, 4])
    [1.0, 3.0]
    """
    found = []
    for value in values:
        at = {**fixed, "views": 1, name: value}
        deep = min(at["features"], at["depth"])
        found.append(float(at["trees"] * deep * at["features"] * at["views"] * at["rows"]))
    return [cost / found[0] for cost in found]


def _growth_table(finished: dict[str, Finished]) -> str:
    rows = []
    for name, part in finished.items():
        values = part.parameters["values"]
        span = f"{values[0]:,} to {values[-1]:,}"
        predicted = formula(name, part.parameters["fixed"], values)[-1]
        for loss, seconds in part.seconds.items():
            what = f"{name} ({_SYMBOL[name]})" + (", the metric alone" if name == "views" else "")
            times = f"{seconds[-1] / seconds[0]:.1f}"
            rows.append(
                [what, span, LOSSES[loss], f"{seconds[0]:.4f}", f"{seconds[-1]:.4f}", times, f"{predicted:.1f}"]
            )
    header = ["what grows", "from … to", "loss", "seconds first", "seconds last", "times", "times by the formula"]
    return table(header, rows)


def _model_table(finished: dict[str, Finished]) -> str:
    """Rules and MVCE of the models that the two losses grew, at each number of rows."""
    part = finished["rows"]
    grown = part.result["grown"]
    rows = []
    for i, n in enumerate(part.parameters["values"]):
        pair = [grown[loss][i] for loss in LOSSES]
        seconds = [part.seconds[loss][i] for loss in LOSSES]
        cells = [f"{model['rules']:,}" for model in pair] + [f"{model['mvce_after']:.5f}" for model in pair]
        rows.append([f"{n:,}", *cells, f"{seconds[1] / seconds[0]:.0f}"])
    titles = list(LOSSES.values())
    header = ["rows", *(f"rules, {t}" for t in titles), *(f"MVCE, {t}" for t in titles), "Monte Carlo takes … times"]
    return table(header, rows)


def _words(finished: dict[str, Finished], growth: str, models: str) -> str:
    parameters = finished["rows"].parameters
    fixed = parameters["fixed"]
    views = finished["views"]
    most, shuffled, exact = (
        views.parameters["values"][-1],
        views.result["mvce"][MONTE_CARLO][-1],
        views.result["mvce"][CLOSED_FORM][-1],
    )
    return (
        "## 5. Complexity (appendix A.2)\n\n"
        "The paper states O(k·min(s,d)·s·r·n) for k trees, s features, depth d, r views and n rows. Training was timed "
        f"while one quantity grew and the others stayed at {fixed['rows']:,} rows, {fixed['features']} features, depth "
        f"{fixed['depth']}, {fixed['trees']} trees (processor time of one thread, least of {parameters['best_of']} "
        f"tries, data with a bias in every feature, bins of at least {parameters['bin_size']} rows). More rows also "
        "allow more splits, and trees stop early where no split helps, so the measured growth can be above or below "
        "the formula. The number of views is fixed in the training loss, so growth with r is that of the metric it "
        f"evaluates.\n\n{growth}\n\n"
        "![Growth of training time](figures/complexity.svg)\n\n"
        "The closed form is what Monte Carlo tends to as views are added: no shuffles, hence no factor r. Over "
        f"{most:,} views the metric of the uncalibrated rows is {shuffled:.6f}, in closed form {exact:.6f}. The models "
        f"that the two losses grow, side by side (MVCE after calibration, over all shuffles):\n\n{models}\n\n"
        "Seconds differ from run to run; they are kept apart from the other numbers (`timings/`)."
    )


def _draw(path: Path, finished: dict[str, Finished]) -> None:
    with figure(path, 1, len(finished), (2.5 * len(finished), 3.1)) as (drawn, axes):
        handles: dict[str, Any] = {}
        for axis, (name, part) in zip(axes[0], finished.items(), strict=True):
            values = part.parameters["values"]
            for loss, seconds in part.seconds.items():
                (handles[LOSSES[loss]],) = axis.plot(values, seconds, color=COLOURS[_COLOUR[loss]], marker="o", ms=4)
            start = part.seconds[MONTE_CARLO][0]
            claimed = start * np.asarray(formula(name, part.parameters["fixed"], values))
            (handles["the formula"],) = axis.plot(values, claimed, color=COLOURS["grey"], ls=":", lw=1.5)
            axis.set(xscale="log", yscale="log", xlabel=f"{name} ({_SYMBOL[name]})")
            plain_log_ticks(axis.yaxis)
            axis.xaxis.minorticks_off()
            axis.set_xticks(values, [_short(v) for v in values])
        axes[0, 0].set_ylabel("processor seconds")
        axes[0, -1].set_title("the metric alone", fontsize=9)
        drawn.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)


def _short(value: int) -> str:
    return f"{value:,}" if value < 1000 else f"{value / 1000:g}k"
