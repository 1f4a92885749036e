"""The experiments by name: the parts each is made of and the section each writes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mbct.experiments.auction import measure as auction
from mbct.experiments.auction import report as auction_report
from mbct.experiments.complexity import measure as complexity
from mbct.experiments.complexity import report as complexity_report
from mbct.experiments.offline import in_depth
from mbct.experiments.offline import measure as offline
from mbct.experiments.offline import table as main_table
from mbct.experiments.parts import Part
from mbct.experiments.settings import Settings
from mbct.experiments.simulation import measure as simulation
from mbct.experiments.simulation import report as simulation_report

Report = Callable[[dict[str, dict[str, Any]], Path, list[Part]], str]


@dataclass(frozen=True)
class Experiment:
    """``report`` draws the figures, writes the tables and returns a section of the README."""

    title: str
    parts: Callable[[Settings], list[Part]]
    report: Report


EXPERIMENTS = {
    "metrics": Experiment(
        "metric simulations", simulation.parts, lambda results, out, _: simulation_report.report(results, out)
    ),
    "table": Experiment("main table", offline.parts, lambda results, out, _: main_table.report(results, out)),
    "in-depth": Experiment("in-depth figures", offline.parts, lambda results, out, _: in_depth.report(results, out)),
    "auction": Experiment("simulated online test", auction.parts, auction_report.report),
    "complexity": Experiment("complexity", complexity.parts, complexity_report.report),
}
"""``table`` and ``in-depth`` share their parts: whichever comes first computes them."""
