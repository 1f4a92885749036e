"""Finished cases gathered by data set."""

from collections.abc import Callable, Sequence
from typing import Any

from reproduction.datasets import LOADERS
from reproduction.offline.methods import TITLES
from reproduction.parts import Finished
from reproduction.spread import Spread, bootstrap_spread, resplit_spread

Repetitions = list[dict[str, Any]]


def by_dataset(finished: dict[str, Finished]) -> dict[str, Repetitions]:
    """Repetitions of each data set, in order, in the order of the registry."""
    found: dict[str, Repetitions] = {}
    for name in LOADERS:
        cases = [part for part in finished.values() if part.parameters["dataset"] == name]
        if cases:
            found[name] = [p.result for p in sorted(cases, key=lambda part: int(part.parameters["repetition"]))]
    return found


def methods_of(repetitions: Repetitions) -> list[str]:
    """Methods that ran on a data set, in the order of the table."""
    return [method for method in TITLES if method in repetitions[0]["methods"]]


def is_by_time(repetitions: Repetitions) -> bool:
    """Whether time decides the split, so that repetitions after the first are bootstraps of its test rows."""
    return bool(repetitions[0]["dataset"]["order"] == "time")


def over_repetitions(repetitions: Repetitions, value: Callable[[dict[str, Any]], float]) -> Spread:
    """A value over repetitions: the mean of random splits, or the first of a split by time."""
    return _summary(repetitions, [value(repetition) for repetition in repetitions])


def score(repetitions: Repetitions, method: str, metric: str) -> Spread:
    """A score of a method."""
    return over_repetitions(repetitions, lambda r: float(r["methods"][method][metric]))


def gain(repetitions: Repetitions, method: str, against: str, metric: str) -> tuple[Spread, int]:
    """Paired difference of two methods and the number of repetitions in which it is below zero."""
    differences = [r["methods"][method][metric] - r["methods"][against][metric] for r in repetitions]
    return _summary(repetitions, differences), sum(d < 0 for d in differences)


def _summary(repetitions: Repetitions, values: Sequence[float]) -> Spread:
    if is_by_time(repetitions):
        return bootstrap_spread(values[0], values[1:])
    predictor, calibrator, test = repetitions[0]["dataset"]["rows"]
    return resplit_spread(values, test / (predictor + calibrator))
