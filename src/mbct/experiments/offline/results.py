"""Finished cases gathered by data set."""

from collections.abc import Callable
from typing import Any

from mbct.experiments.datasets import LOADERS
from mbct.experiments.spread import Spread, spread

Results = dict[str, dict[str, Any]]


def by_dataset(results: Results) -> dict[str, list[dict[str, Any]]]:
    """Repetitions of each data set, in order, in the order of the registry."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name in LOADERS:
        repetitions = [r for key, r in results.items() if key.rpartition("-")[0] == name]
        if repetitions:
            found[name] = repetitions
    return found


def over_repetitions(repetitions: list[dict[str, Any]], value: Callable[[dict[str, Any]], float]) -> Spread:
    """Mean and spread of a value over repetitions."""
    return spread([value(repetition) for repetition in repetitions])


def score(repetitions: list[dict[str, Any]], method: str, metric: str) -> Spread:
    """A score of a method."""
    return over_repetitions(repetitions, lambda r: r["methods"][method][metric])


def gain(repetitions: list[dict[str, Any]], method: str, against: str, metric: str) -> tuple[Spread, int]:
    """Paired difference of two methods and the number of repetitions in which it is below zero."""
    differences = [r["methods"][method][metric] - r["methods"][against][metric] for r in repetitions]
    return spread(differences), sum(d < 0 for d in differences)
