"""A progress bar on a terminal, silence elsewhere."""

import sys
from collections.abc import Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def track(items: Sequence[Item], description: str) -> Iterator[Item]:
    """Yield ``items``, with a bar on stderr if that is a terminal and rich is installed.

    >>> list(track([1, 2], "counting"))
    [1, 2]
    """
    if not sys.stderr.isatty():
        yield from items
        return
    try:
        from rich.console import Console
        from rich.progress import track as rich_track
    except ImportError:
        yield from items
        return
    yield from rich_track(items, description, console=Console(stderr=True), transient=True)
