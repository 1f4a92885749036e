"""Run experiments: compute the parts that are not finished, then write the page."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

from mbct.errors import ParameterError
from mbct.progress import progress
from reproduction.datasets import LOADERS, present
from reproduction.page import record, write_page
from reproduction.parts import Part, finish, kept
from reproduction.registry import EXPERIMENTS
from reproduction.settings import FULL_REPETITIONS, QUICK_REPETITIONS, Settings

ALL = "all"


class Options(TypedDict, total=False):
    """Keywords of :func:`plan` and :func:`run`."""

    quick: bool
    out: str | os.PathLike[str]
    data: str | os.PathLike[str]
    seed: int
    repetitions: int | None


@dataclass(frozen=True)
class Plan:
    """What is to be computed, what is there already, and about how long it takes on two processors."""

    settings: Settings
    out: Path
    waiting: tuple[Part, ...]
    n_kept: int

    @property
    def seconds(self) -> float:
        """Expected duration."""
        return sum(part.cost for part in self.waiting)

    def __str__(self) -> str:
        minutes = max(round(self.seconds / 60.0), 1) if self.waiting else 0
        return f"{len(self.waiting)} parts to compute, about {minutes} min on two processors; {self.n_kept} kept"


def plan(
    names: Sequence[str] = (ALL,),
    *,
    quick: bool = False,
    out: str | os.PathLike[str] = "docs/reproduction",
    data: str | os.PathLike[str] = "data",
    seed: int = 0,
    repetitions: int | None = None,
) -> Plan:
    """What :func:`run` would compute."""
    chosen = _chosen(names)
    if repetitions is None:
        repetitions = QUICK_REPETITIONS if quick else FULL_REPETITIONS
    if repetitions < 1:
        raise ParameterError(f"repetitions={repetitions!r} must be at least 1")
    settings = Settings(quick, seed, Path(data), repetitions)
    parts = {part.file: part for name in chosen for part in EXPERIMENTS[name].parts(settings)}
    waiting = tuple(part for part in parts.values() if kept(part, Path(out)) is None)
    return Plan(settings, Path(out), waiting, len(parts) - len(waiting))


def run(names: Sequence[str] = (ALL,), **options: Unpack[Options]) -> Path:
    """Reproduce the named experiments (or "all") into the folder ``out`` and return the path of its README.

    Finished parts found in ``out`` are kept if the same code made them from the same parameters, so an interrupted
    run goes on where it stopped; the page covers every experiment whose parts are all there. ``quick`` shrinks
    everything to a few minutes. The same seed gives the same numbers. ``repetitions`` are the splits of each data set
    and the simulated markets; a later run with more keeps those that are there.
    """
    planned = plan(names, **options)
    with progress(f"reproducing: {planned}", round(planned.seconds)) as advance:
        for part in planned.waiting:
            finish(part, planned.out)
            advance(round(part.cost))
    return _write_page(planned.settings, planned.out)


def _chosen(names: Sequence[str]) -> list[str]:
    if isinstance(names, str):
        raise ParameterError(f"names must be a list, got the text {names!r}; write [{names!r}]")
    if unknown := [name for name in names if name != ALL and name not in EXPERIMENTS]:
        raise ParameterError(f"unknown experiment {unknown[0]!r}; choose {', '.join(EXPERIMENTS)} or all")
    return list(EXPERIMENTS) if ALL in names else list(dict.fromkeys(names))


def _write_page(settings: Settings, out: Path) -> Path:
    """The page of all experiments whose parts are finished."""
    finished: dict[str, list[str]] = {}
    for name, experiment in EXPERIMENTS.items():
        parts = experiment.parts(settings)
        if parts and all(kept(part, out) is not None for part in parts):
            finished[name] = [part.file for part in parts]
    found = present(settings.data)
    return write_page(record(settings, [name for name in LOADERS if name not in found], finished), out)
