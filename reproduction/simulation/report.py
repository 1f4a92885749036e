"""The README's section on the metric simulations."""

from pathlib import Path
from typing import Any

from reproduction.markdown import listed, table
from reproduction.parts import Finished, write
from reproduction.simulation.figures import REFERENCE_TEXT, draw_curves, draw_heat_maps
from reproduction.simulation.measure import CURVE_BINS, METRICS, references
from reproduction.simulation.settings import SIMULATIONS, Simulation

_NAMES = {"ece": "ECE", "ece_sweep": "ECE_sweep", "mvce": "MVCE"}


def report(finished: dict[str, Finished], out: Path) -> str:
    """Draw all figures, write the tables, and return the section."""
    results = {name: part.result for name, part in finished.items()}
    parameters = next(iter(finished.values())).parameters
    sections = [_introduction(parameters)]
    rows = []
    for simulation in SIMULATIONS:
        by_size = _by_size(results, simulation)
        draw_curves(out / "figures" / f"metrics-{simulation.name}-curves.svg", simulation, by_size)
        draw_heat_maps(out / "figures" / f"metrics-{simulation.name}-heat-maps.svg", simulation, by_size)
        rows += _rows(simulation, by_size)
        sections.append(_section(simulation, by_size))
    header = ["simulation", "compared with", "truth", *(f"Ê_bias {_NAMES[m]}" for m in METRICS), "nearest"]
    write(out / "tables" / "metrics.md", table(header, rows) + "\n")
    sections.insert(1, table(header, rows))
    return "\n\n".join(sections)


def _introduction(parameters: dict[str, Any]) -> str:
    main = SIMULATIONS[0]
    truths = references(main)
    return (
        "## 1. Which metric measures the calibration error? (Section 5.3, appendix B.2)\n\n"
        f"The paper draws predictions from {main.title}, says that equation (1) with p = 2 gives a true calibration "
        f"error (TCE) of {truths['printed']:.4f}, and finds that MVCE comes nearest to it. Integrating equation (1) "
        f"numerically gives {truths['p2']:.4f} for p = 2 and {truths['p1']:.4f} for p = 1; the printed value is "
        "neither. Everything below is therefore shown against all three, where there is a printed value. Ê_bias is "
        f"the mean distance over {parameters['repetitions']} draws (MVCE: {parameters['views']} views); at the largest "
        f"sample size, with {CURVE_BINS} bins:"
    )


def _by_size(results: dict[str, dict[str, Any]], simulation: Simulation) -> dict[int, dict[str, Any]]:
    prefix = f"{simulation.name}-"
    return {int(name.removeprefix(prefix)): found for name, found in results.items() if _is_size(name, prefix)}


def _is_size(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and name.removeprefix(prefix).isdigit()


def _biases(by_size: dict[int, dict[str, Any]], truth: str) -> dict[str, float]:
    """Ê_bias of each metric at the largest sample size."""
    metrics = by_size[max(by_size)]["metrics"]
    keys = {"ece": f"ece-{CURVE_BINS}", "ece_sweep": "ece_sweep", "mvce": f"mvce-{CURVE_BINS}"}
    return {name: metrics[key]["bias"][truth] for name, key in keys.items()}


def _rows(simulation: Simulation, by_size: dict[int, dict[str, Any]]) -> list[list[str]]:
    rows = []
    for truth, value in by_size[max(by_size)]["references"].items():
        bias = _biases(by_size, truth)
        best = _NAMES[min(bias, key=lambda name: bias[name])]
        cells = [f"{bias[m]:.4f}" for m in METRICS]
        rows.append([simulation.title, REFERENCE_TEXT[truth], f"{value:.4f}", *cells, best])
    return rows


def _section(simulation: Simulation, by_size: dict[int, dict[str, Any]]) -> str:
    figures = (
        f"![{simulation.title}: curves](figures/metrics-{simulation.name}-curves.svg)\n\n"
        f"![{simulation.title}: heat maps](figures/metrics-{simulation.name}-heat-maps.svg)"
    )
    return f"### {simulation.title}\n\n{_words(by_size)}\n\n{figures}"


def _words(by_size: dict[int, dict[str, Any]]) -> str:
    largest = by_size[max(by_size)]
    truths, bias = largest["references"], largest["bias"]
    value = largest["metrics"][f"mvce-{CURVE_BINS}"]["mean"]
    wins = [t for t in truths if min(_biases(by_size, t).items(), key=lambda item: item[1])[0] == "mvce"]
    won = f"MVCE is nearest to {listed([REFERENCE_TEXT[t] for t in wins])}" if wins else "MVCE is nearest to none"
    lost = [REFERENCE_TEXT[t] for t in truths if t not in wins]
    summary = f"{won}{f', and not to {listed(lost)}' if lost and wins else ''} (n = {max(by_size):,}). "
    if abs(abs(bias) - truths["p1"]) < 1e-9:
        return summary + (
            "The reason is simple: here the prediction is too high for every row, so the bias over all rows, "
            f"{bias:.4f}, equals the TCE for p = 1, and a shuffled bin, whose mean residual is that bias plus noise, "
            f"shows just this number (MVCE = {value:.4f} with {CURVE_BINS} bins). ECE sorts the rows, sees the error "
            "of each level of the prediction, and tends to the TCE for p = 2, which is what equation (1) asks for."
        )
    return summary + (
        f"The error changes sign, so the bias over all rows is {bias:.4f} while the TCE is {truths['p1']:.4f} "
        f"(p = 1) or {truths['p2']:.4f} (p = 2). Shuffled bins mix both signs: MVCE shows {value:.4f}, which is noise "
        "that falls as samples are added. Where MVCE looks near the truth at some number of bins here, it is because "
        "noise of that size happens to resemble it. This simulation is ours, not the paper's."
    )
