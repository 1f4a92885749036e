"""A progress bar with percentage and estimate on a terminal, silence in a pipe."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Item = TypeVar("Item")

Advance = Callable[[int], None]
"""Reports that so many more steps are done."""

_shown: ContextVar[bool] = ContextVar("_shown", default=False)
"""Whether a bar is on the screen: one within it stays silent, as a terminal has room for one."""


TYPICAL_ROUNDS = 300
"""Rounds of boosting that a fit takes, more or less."""


@contextmanager
def progress(
    description: str, total: int | None = None, *, about: int | None = None, show: bool | None = None
) -> Iterator[Advance]:
    """Yield a function that advances the bar; ``about`` is a guess of ``total``, which grows with what is done.

    The bar needs rich (extra ``cli``) and a terminal on standard error; ``show`` forces it on or off.
    """
    if _shown.get() or not (sys.stderr.isatty() if show is None else show):
        yield lambda _: None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    except ImportError:
        yield lambda _: None
        return
    length = total or about
    known = (TextColumn("{task.percentage:>3.0f} %, about"), TimeRemainingColumn(), TextColumn("left"))
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), *(known if length else ()))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=length)

        def advance(steps: int) -> None:
            bar.advance(task, steps)
            if total is None and about is not None:
                bar.update(task, total=guessed_total(bar.tasks[task].completed, about))

        token = _shown.set(True)
        try:
            yield advance
        finally:
            _shown.reset(token)


def guessed_total(done: float, about: float) -> float:
    """Length of a bar whose end is not known: every step moves it on, and none fills it.

    >>> [round(100 * done / guessed_total(done, 300)) for done in (0, 150, 300, 900, 3000)]
    [0, 43, 67, 92, 99]
    """
    return done + about**2 / (about + done)


def track(items: Sequence[Item], description: str) -> Iterator[Item]:
    """Yield ``items`` while a bar shows how many are done.

    >>> list(track([1, 2], "counting"))
    [1, 2]
    """
    with progress(description, len(items)) as advance:
        for item in items:
            yield item
            advance(1)
