"""Rows in shards: contiguous stretches of them in canonical order, each worked on where it is.

A task sees one shard at a time and gives back small arrays, which are added up over the shards. It may hand over new
columns too, which the shard then keeps. So the memory of a pass is bounded by a shard, and what travels by the sums.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import numpy as np

Columns = dict[str, np.ndarray[Any, Any]]
"""Arrays of a shard by name; ``codes`` has a row for each of the shard's."""
Totals = tuple[Any, ...]
Result = TypeVar("Result")
Task = Callable[[Columns, int], tuple[Columns, Result]]
"""Changed columns and sums of a shard, given the number of rows before it; must be a picklable function."""
Join = Callable[[Any, Any], Any]


def added(left: Totals, right: Totals) -> Totals:
    """Sums of two shards as one."""
    return tuple(a + b for a, b in zip(left, right, strict=True))


def changed_columns(columns: Columns, changed: Columns) -> Columns:
    """Columns of a shard after a task: where it gives other rows, by their codes, nothing is left of those before."""
    return changed if "codes" in changed else columns | changed


class Shards(Protocol):
    """Shards in the order of their rows."""

    def total(self, task: Task[Result], join: Join = added) -> Result:
        """Results of all shards, joined in their order; columns that the task changes are forgotten."""
        ...

    def update(self, task: Task[Result], join: Join = added) -> Result:
        """The same, and the shards keep the changed columns."""
        ...

    def head(self, n_rows: int) -> Columns:
        """The first rows, or all."""
        ...


def first_rows(shards: Sequence[Columns], n_rows: int) -> Columns:
    """The first rows of some shards as one, in their codes and the columns of one number a row."""
    names = [name for name, values in shards[0].items() if name == "codes" or values.ndim == 1]
    return {name: np.concatenate([shard[name] for shard in shards])[:n_rows] for name in names}


@dataclass
class FileShards:
    """Shards in files of a temporary folder, mapped into memory one at a time for each thread."""

    n_threads: int = 1
    sizes: list[int] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="mbct-shards-"))
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def append(self, columns: Columns) -> None:
        """Add a shard behind the others."""
        self.sizes.append(0)
        self._keep(len(self.sizes) - 1, columns)

    def total(self, task: Task[Result], join: Join = added) -> Result:
        """See :class:`Shards`."""
        return self._run(task, join, keep=False)

    def update(self, task: Task[Result], join: Join = added) -> Result:
        """See :class:`Shards`."""
        return self._run(task, join, keep=True)

    def head(self, n_rows: int) -> Columns:
        """See :class:`Shards`."""
        n_needed = int(np.searchsorted(np.cumsum(self.sizes), n_rows)) + 1
        some = [self._columns(shard) for shard in range(min(n_needed, len(self.sizes)))]
        return first_rows(some, n_rows)

    def _run(self, task: Task[Result], join: Join, *, keep: bool) -> Result:
        first = np.cumsum([0, *self.sizes])

        def run(shard: int) -> Result:
            changed, found = task(self._columns(shard), int(first[shard]))
            if keep:
                self._keep(shard, changed)
            return found

        with ThreadPoolExecutor(self.n_threads) as pool:
            return reduce(join, self._in_turn(pool, run))

    def _in_turn(self, pool: ThreadPoolExecutor, run: Callable[[int], Result]) -> Iterator[Result]:
        """Results in the order of the shards, no more of them at a time than there are threads."""
        for begin in range(0, len(self.sizes), self.n_threads):
            yield from pool.map(run, range(begin, min(begin + self.n_threads, len(self.sizes))))

    def _columns(self, shard: int) -> Columns:
        paths = sorted(self.folder.glob(f"{shard}-*.npy"))
        # What a task writes into a mapped array stays its own (mode "c").
        return {path.stem.split("-")[1]: np.asarray(np.load(path, mmap_mode="c")) for path in paths}

    def _keep(self, shard: int, columns: Columns) -> None:
        if "codes" in columns:  # other rows: nothing is left of those before
            for path in self.folder.glob(f"{shard}-*.npy"):
                path.unlink()
            self.sizes[shard] = len(columns["codes"])
        for name, values in columns.items():
            beside = self.folder / "new" / f"{shard}-{name}.npy"
            beside.parent.mkdir(exist_ok=True)
            np.save(beside, values)
            beside.replace(self.folder / f"{shard}-{name}.npy")  # a mapped file must not be written to
