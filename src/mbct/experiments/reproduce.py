"""Run experiments: compute the parts that are not finished, then draw, tabulate and write the page."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mbct.errors import ParameterError
from mbct.experiments.datasets import LOADERS, present
from mbct.experiments.parts import Part, finish, kept, write
from mbct.experiments.readme import page
from mbct.experiments.registry import EXPERIMENTS
from mbct.experiments.settings import FULL_REPETITIONS, QUICK_REPETITIONS, Settings
from mbct.progress import progress
from mbct.validation import at_least

ALL = "all"
PAGE = "README.md"


def run(
    names: Sequence[str] = (ALL,),
    *,
    quick: bool = False,
    out: str | os.PathLike[str] = "docs/reproduction",
    data: str | os.PathLike[str] = "data",
    seed: int = 0,
    repetitions: int | None = None,
) -> Path:
    """Reproduce the named experiments (or "all") into the folder ``out`` and return the path of its README.

    Finished parts found in ``out`` are kept, so an interrupted run goes on where it stopped; the page covers every
    experiment whose parts are all there. ``quick`` shrinks everything to a few minutes. The same seed gives the same
    numbers. ``repetitions`` are the splits of each data set and the simulated markets (5, or 1 if quick); a later run
    with more keeps those that are there.
    """
    chosen = _chosen(names)
    if repetitions is None:
        repetitions = QUICK_REPETITIONS if quick else FULL_REPETITIONS
    at_least(1, repetitions=repetitions)
    settings = Settings(quick, seed, Path(data), repetitions)
    folder = Path(out)
    todo = [(name, part) for name in chosen for part in EXPERIMENTS[name].parts(settings)]
    with progress("reproducing", len(todo)) as advance:
        for _, part in todo:
            finish(part, folder)
            advance(1)
    return _write_page(settings, folder)


def _chosen(names: Sequence[str]) -> list[str]:
    if isinstance(names, str):
        raise ParameterError(f"names must be a list, got the text {names!r}; write [{names!r}]")
    if unknown := [name for name in names if name != ALL and name not in EXPERIMENTS]:
        raise ParameterError(f"unknown experiment {unknown[0]!r}; choose {', '.join(EXPERIMENTS)} or all")
    return list(EXPERIMENTS) if ALL in names else list(dict.fromkeys(names))


def _write_page(settings: Settings, out: Path) -> Path:
    sections: dict[str, str] = {}
    computed: dict[str, int] = {}
    for name, experiment in EXPERIMENTS.items():
        parts = experiment.parts(settings)
        results = _finished(parts, out)
        if results is not None:
            sections[name] = experiment.report(results, out, parts)
            computed[name] = len(parts)
    found = present(settings.data)
    write(out / PAGE, page(settings, sections, [name for name in LOADERS if name not in found], computed))
    return out / PAGE


def _finished(parts: list[Part], out: Path) -> dict[str, dict[str, Any]] | None:
    """Results of all parts; None if one is missing or there are none."""
    results = {part.name: kept(part, out) for part in parts}
    complete = {name: result for name, result in results.items() if result is not None}
    return complete if complete and len(complete) == len(parts) else None
