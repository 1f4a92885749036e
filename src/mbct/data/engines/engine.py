"""What an engine must be able to do beyond the expressions that all of them share."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from mbct.data.expressions import balanced, step_of
from mbct.model.conditions import CodeDecision
from mbct.training.sharded.shards import Columns, FileShards, Shards
from mbct.validation import FloatArray

Frame = nw.LazyFrame[Any]
"""Rows that stay in their engine until they are collected."""
ColumnOf = Callable[[int], str]
"""Name of the code column of a feature."""


def lazy(native: Any) -> Frame:
    """An engine's own object as a narwhals frame."""
    frame: Frame = nw.from_native(native)
    return frame


@dataclass(frozen=True)
class Lookup:
    """Texts of ``column`` to be replaced by codes in ``into``; another text, or none, becomes null."""

    column: str
    into: str
    code_of: Mapping[str, int]


class CellFormat(ABC):
    """How batches of rows become shards of cells; it can be sent to where the rows are."""

    @abstractmethod
    def columns(self, batch: nw.DataFrame[Any]) -> Columns:
        """Arrays of a batch."""

    @abstractmethod
    def parts(self, columns: Columns, n_parts: int) -> npt.NDArray[np.int64]:
        """Shard of each row, in the order of the shards."""

    @abstractmethod
    def cells(self, batches: Iterable[Columns]) -> Columns:
        """The rows of a shard as cells."""

    def split(self, columns: Columns, n_parts: int) -> Iterator[tuple[int, Columns]]:
        """The rows of a batch by their shard."""
        part = self.parts(columns, n_parts)
        order = np.argsort(part, kind="stable")
        bounds = np.searchsorted(part[order], np.arange(n_parts + 1))
        for number in np.unique(part).tolist():
            own = order[bounds[number] : bounds[number + 1]]
            yield number, {name: values[own] for name, values in columns.items()}


class Engine(ABC):
    """One engine; every method takes and gives back lazy narwhals frames of that engine."""

    streams = False
    """Whether :meth:`batches` hands out rows while it still reads, so that raw ones need not fit into memory."""

    @abstractmethod
    def collect(self, frame: Frame) -> nw.DataFrame[Any]:
        """Run the query and bring its result into memory."""

    def batches(self, frame: Frame) -> Iterator[nw.DataFrame[Any]]:
        """Run the query and bring its result into memory part by part, where the engine can."""
        yield self.collect(frame)

    @abstractmethod
    def table(self, beside: Frame, columns: Mapping[str, np.ndarray[Any, Any]], /) -> Frame:
        """A small table that can be joined with ``beside``."""

    @abstractmethod
    def in_utc(self, frame: Frame, columns: Sequence[str]) -> Frame:
        """Timestamps with a zone in ``columns`` as timestamps of UTC without one, whatever zone the machine is in."""

    def look_up(self, frame: Frame, lookups: Sequence[Lookup]) -> Frame:
        """Add a code column for each lookup: by a left join with a small table, where the engine has nothing faster."""
        for lookup in lookups:
            if not lookup.code_of:
                frame = frame.with_columns(nw.lit(None).cast(nw.Int32).alias(lookup.into))
                continue
            key = lookup.into + "_key"
            texts, codes = np.array(list(lookup.code_of), dtype=object), np.array(list(lookup.code_of.values()))
            small = self.table(frame, {key: texts, lookup.into: codes})
            frame = frame.join(small, left_on=lookup.column, right_on=key, how="left")
        return frame

    def sum_trees(
        self, frame: Frame, into: str, terms: Sequence[CodeDecision], column: ColumnOf, *, product: bool
    ) -> Frame:
        """Add the sum, or the product, of what each of ``terms`` decides from the code columns."""
        join = operator.mul if product else operator.add
        return frame.with_columns(balanced([step_of(term, column) for term in terms], join).alias(into))

    def unpivot(self, frame: Frame, columns: Sequence[str], into: str, kept: Sequence[str]) -> Frame:
        """One row for each row and each of ``columns``: its value in ``into``, beside the ``kept`` columns."""
        long = frame.unpivot(on=list(columns), index=list(kept), variable_name=into + "_name", value_name=into)
        return long.select(into, *kept)

    @abstractmethod
    def count_distinct(self, frame: Frame, columns: Sequence[str]) -> int:
        """About how many distinct rows ``columns`` have, from a sketch."""

    @abstractmethod
    def quantiles(self, frame: Frame, column: str, n_points: int) -> FloatArray:
        """``n_points`` evenly spaced quantiles of a column of finite floats, from the engine's own sort or sketch."""

    @abstractmethod
    def materialize(self, frame: Frame) -> Frame:
        """Compute ``frame`` once and hold it where the engine holds data."""

    @contextmanager
    def shards(self, frame: Frame, form: CellFormat, n_shards: int, n_threads: int) -> Iterator[Shards]:
        """Cells of ``frame`` in about so many shards: in files of a temporary folder, written batch by batch."""
        with FileShards(n_threads) as shards:
            for batch in self.batches(frame):
                for number, rows in form.split(form.columns(batch), n_shards):
                    names = tuple(rows)
                    with (shards.folder / f"{number}.rows").open("ab") as file:
                        for name in names:
                            np.save(file, rows[name], allow_pickle=False)
            for path in sorted(shards.folder.glob("*.rows"), key=lambda path: int(path.stem)):
                shards.append(form.cells(_batches_of(path, names)))
                path.unlink()
            yield shards

    def release(self, frame: Frame) -> None:  # noqa: B027 - what is held in memory goes with the frame
        """Free what :meth:`materialize` held."""


def _batches_of(path: Path, names: Sequence[str]) -> Iterator[Columns]:
    with path.open("rb") as file:
        while file.peek(1):
            yield {name: np.load(file, allow_pickle=False) for name in names}
