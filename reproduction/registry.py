"""The experiments by name: the parts each is made of and the section each writes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reproduction.auction import measure as auction
from reproduction.auction import report as auction_report
from reproduction.complexity import measure as complexity
from reproduction.complexity import report as complexity_report
from reproduction.offline import in_depth, main_table
from reproduction.offline import measure as offline
from reproduction.parts import Finished, Part
from reproduction.settings import Settings
from reproduction.simulation import measure as simulation
from reproduction.simulation import report as simulation_report


@dataclass(frozen=True)
class Experiment:
    """``report`` takes the finished parts by name, draws, writes the tables and returns a section of the page."""

    parts: Callable[[Settings], list[Part]]
    report: Callable[[dict[str, Finished], Path], str]


EXPERIMENTS = {
    "metrics": Experiment(simulation.parts, simulation_report.report),
    "table": Experiment(offline.parts, main_table.report),
    "in-depth": Experiment(offline.parts, in_depth.report),
    "auction": Experiment(auction.parts, auction_report.report),
    "complexity": Experiment(complexity.parts, complexity_report.report),
}
"""``table`` and ``in-depth`` share their parts: whichever comes first computes them."""
