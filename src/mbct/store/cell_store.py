"""The store: cells by day, appended in batches, read as windows, compacted; safe against crashes and other writers.

A batch is first written under a file name of its own, then named in a new manifest. What no manifest names does not
exist, so a writer that dies at any point leaves the store as it was.
"""

import datetime
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.errors import DataError, ModelFileError, StorageError
from mbct.model.bins import FeatureBins
from mbct.store.cell_file import (
    bins_from_json,
    bins_to_json,
    digest_of,
    entry_of,
    from_parquet,
    require_storable,
    to_parquet,
)
from mbct.store.compaction import delete_leftovers, drop_days, join_batches
from mbct.store.document_log import DocumentLog
from mbct.store.manifest import EMPTY, FORMAT, Batch, Manifest, as_day, day_number, days_between
from mbct.store.storage import open_storage
from mbct.training.cells import Cells

_MANIFESTS_KEPT = 20
_GRACE_SECONDS = 3600.0
"""Unnamed files younger than this may belong to a writer that is about to name them, or to a reader."""
_MOST_READS = 20


class DroppedDayError(DataError):
    """The rows belong to a day that the store has dropped for good."""


@dataclass(frozen=True)
class Window:
    """Cells of consecutive days, older days decayed, and where they came from.

    Attributes
    ----------
    cells, bins : Cells, FeatureBins
        The cells of all days, added up, and the bins that they were coded with.
    first_day, last_day : str
        First and last day with cells, as 2024-05-01.
    batches : tuple of Batch
        Entries of the manifest that were read.
    half_life : float or None
        Days after which a row counts one half; None where all days count alike.
    day : ndarray of int64 or None
        Day of each cell as days since 1970-01-01, where days were kept apart.
    """

    cells: Cells
    bins: FeatureBins
    first_day: str
    last_day: str
    batches: tuple[Batch, ...]
    half_life: float | None
    day: npt.NDArray[np.int64] | None = None


class CellStore:
    """A folder of cells by day at ``url``, local or any that fsspec knows; the first batch makes it.

    Any number of processes may append, read and compact at once.
    """

    def __init__(self, url: str | os.PathLike[str]):
        self.storage = open_storage(url)
        self.log = DocumentLog(self.storage, "manifest", EMPTY, _MANIFESTS_KEPT)
        self._refuse_foreign_folder()

    def append(
        self,
        cells: Cells,
        bins: FeatureBins,
        *,
        day: str | datetime.date,
        batch: str,
        replace: bool = False,
        seen: str | datetime.date | None = None,
    ) -> Batch:
        """Add the cells of one batch; the same batch again changes nothing. Returns its entry in the manifest.

        Parameters
        ----------
        cells, bins : Cells, FeatureBins
            Cells of the batch, and the bins that they were coded with.
        day : str or date
            Day of the rows.
        batch : str
            Name of the rows (a file, an hour, a job's run), so that a job that is run twice counts once.
        replace : bool, default=False
            Exchange a batch of this name that holds other rows, atomically. Without it such a batch is refused.
        seen : str, date or None, default=None
            Day on which these labels were known, from which :func:`~mbct.store.maturity.store_maturity` learns how late
            labels come; today if not given.

        Returns
        -------
        batch : Batch
            Its entry in the manifest.
        """
        require_storable(cells, bins, batch)
        if cells.block is not None:
            cells = replace_fields(cells, block=None).canonical()  # the store's blocks are its days
        self.storage.create(f"bins/{bins.fingerprint}.json", bins_to_json(bins))
        content = to_parquet([cells])
        known_on = as_day(datetime.datetime.now(datetime.UTC).date() if seen is None else seen)
        entry = entry_of((batch,), (digest_of(cells),), as_day(day), [cells], content)
        held = self.manifest().find(batch)
        if held is None or replace:
            self.storage.write(entry.file, content)

        def same_rows(found: Batch | None) -> bool:
            return found is not None and (found.digest_of(batch), found.day) == (entry.digests[0], entry.day)

        def add(newest: Manifest) -> Manifest | None:
            # That no label came until this date is worth a note too.
            if same_rows(newest.find(batch)) and (not replace or newest.noted(entry.day, known_on) == newest):
                return None
            if newest.first_day is not None and entry.day < newest.first_day:
                raise DroppedDayError(f"day {entry.day} was dropped: the store keeps days from {newest.first_day} on")
            other = newest.find(batch)
            if other is None:
                newest = newest.replaced((), (entry,))
            elif not same_rows(other) and replace:
                newest = newest.replaced((other,), (*self._without(other, batch), entry))
            elif not same_rows(other):
                raise DataError(
                    f"batch {batch!r} of {other.day} is in the store with other rows than these "
                    f"({entry.count:g} rows and {entry.label:g} positives of {entry.day}): choose another name, "
                    "or replace it (replace=True, --replace)"
                )
            return newest.noted(entry.day, known_on)

        try:
            found = self.change(add).find(batch)
        except DataError:
            self.storage.remove(entry.file)
            raise
        if found is None:
            raise StorageError(f"batch {batch!r} was not stored")
        if found.file != entry.file:
            self.storage.remove(entry.file)
        self._restore_if_gone(found, content)
        return found

    def manifest(self) -> Manifest:
        """What the store holds now."""
        return Manifest.from_dict(self.log.newest()[1], self.storage.url)

    def change(self, change: Callable[[Manifest], Manifest | None]) -> Manifest:
        """Write what ``change`` makes of the newest manifest, until that is None; returns the newest."""

        def changed(body: dict[str, Any]) -> dict[str, Any] | None:
            made = change(Manifest.from_dict(body, self.storage.url))
            return None if made is None else made.to_dict()

        return Manifest.from_dict(self.log.change(changed), self.storage.url)

    def days(self) -> list[str]:
        """Days with cells, rising."""
        return sorted({batch.day for batch in self.manifest().batches})

    def window(
        self,
        days: int | None = None,
        half_life: float | None = None,
        *,
        until: str | datetime.date | None = None,
        fingerprint: str | None = None,
        by_day: bool = True,
    ) -> Window:
        """Cells of the last ``days`` days up to ``until`` (the newest day), added up.

        Parameters
        ----------
        days, until : int, and str or date, or None, default=None
            Length and last day of the window; None takes all days, and the newest.
        half_life : float or None, default=None
            A row that is that many days older than the last day counts one half.
        fingerprint : str or None, default=None
            Chooses among bins where the days were coded with different ones.
        by_day : bool, default=True
            Keep the cells of different days apart: each day is a block of the cells, so that training holds out whole
            days, and ``Window.day`` its date. False adds the days up, as if their rows were independent.

        Returns
        -------
        window : Window
            Cells, bins and days.
        """
        if days is not None and days < 1:
            raise DataError(f"days={days!r} must be at least 1")
        if half_life is not None and not half_life > 0.0:
            raise DataError(f"half_life={half_life!r} must be above 0 days")
        for _ in range(_MOST_READS):
            chosen = self._choose(self.manifest(), days, None if until is None else as_day(until), fingerprint)
            try:
                return self._read_window(chosen, half_life, by_day=by_day)
            except FileNotFoundError as error:
                missing = str(error)
                if self._choose(self.manifest(), days, chosen[-1].day, chosen[-1].fingerprint) == chosen:
                    break
        raise ModelFileError(f"a file of cells is gone from {self.storage.url}: {missing}; restore it")

    def compact(self, *, keep_days: int | None = None, grace_seconds: float = _GRACE_SECONDS) -> Manifest:
        """Join the batches of each day into one file, drop old days, delete leftovers; returns what is left.

        Parameters
        ----------
        keep_days : int or None, default=None
            Drop days beyond the newest ``keep_days`` for good; None drops none.
        grace_seconds : float, default=3600
            Age from which on a file that no manifest names is deleted; a younger one may belong to a running append.

        Returns
        -------
        manifest : Manifest
            What is left.
        """
        if keep_days is not None:
            drop_days(self, keep_days)
        join_batches(self)
        delete_leftovers(self, grace_seconds)
        return self.manifest()

    def verify(self, *, leftovers: bool = True) -> list[str]:
        """A sentence for each file that is missing or damaged; ``leftovers``: and for each that no manifest names."""
        present = self.storage.names("cells") if leftovers else []
        manifest = self.manifest()
        faults = []
        for batch in manifest.batches:
            try:
                self.read_parts(batch, self.bins(batch.fingerprint))
            except FileNotFoundError:
                faults.append(f"{self.storage.url}/{batch.file} is missing")
            except ModelFileError as error:
                faults.append(str(error))
        named = {batch.file for batch in manifest.batches}
        faults.extend(f"{self.storage.url}/{name} is named by no manifest" for name in present if name not in named)
        return faults

    def bins(self, fingerprint: str) -> FeatureBins:
        """The bins that cells of this ``fingerprint`` (:attr:`Batch.fingerprint`) were coded with, compared with it."""
        name = f"bins/{fingerprint}.json"
        try:
            bins = bins_from_json(self.storage.read(name), f"{self.storage.url}/{name}")
        except FileNotFoundError as error:
            raise ModelFileError(f"{self.storage.url}/{name} is missing: restore it") from error
        if bins.fingerprint != fingerprint:
            raise ModelFileError(f"{self.storage.url}/{name} was changed after it was written: restore it")
        return bins

    def _choose(
        self, manifest: Manifest, days: int | None, until: str | None, fingerprint: str | None
    ) -> tuple[Batch, ...]:
        batches = [b for b in manifest.batches if until is None or b.day <= until]
        if not batches:
            raise DataError(f"{self.storage.url} holds no cells" + ("" if until is None else f" up to {until}"))
        last = until if until is not None else batches[-1].day
        if days is not None:
            batches = [b for b in batches if days_between(b.day, last) < days]
        wanted = fingerprint if fingerprint is not None or not batches else batches[-1].fingerprint
        if fingerprint is None and (others := sorted({b.day for b in batches if b.fingerprint != wanted})):
            raise DataError(
                f"{others[0]} to {others[-1]} hold cells of other bins than {wanted}, those of the newest day: "
                "shorten the window, or pass fingerprint=… to choose"
            )
        chosen = tuple(b for b in batches if b.fingerprint == wanted)
        if not chosen:
            raise DataError(f"{self.storage.url} holds no cells of the last {days} days up to {last}")
        return chosen

    def _read_window(self, batches: Sequence[Batch], half_life: float | None, *, by_day: bool) -> Window:
        bins = self.bins(batches[0].fingerprint)
        first, last = batches[0].day, batches[-1].day
        merged, days = [], []
        for number, (day, group) in enumerate(groupby(batches, key=lambda batch: batch.day)):
            parts = [part for batch in group for part in self.read_parts(batch, bins)]
            cells = parts[0].merge(*parts[1:])
            fade = 1.0 if half_life is None else 0.5 ** (days_between(day, last) / half_life)
            block = np.full(len(cells), number, dtype=np.int32) if by_day else None
            merged.append(replace_fields(cells if fade == 1.0 else cells.decay(fade), block=block))
            days.append(day_number(day))
        cells = merged[0].merge(*merged[1:])
        day_of_cell = None if cells.block is None else np.array(days, dtype=np.int64)[cells.block]
        return Window(cells, bins, first, last, tuple(batches), half_life, day_of_cell)

    def read_parts(self, batch: Batch, bins: FeatureBins) -> list[Cells]:
        """Cells of each batch in a file; FileNotFoundError where it is gone."""
        name = f"{self.storage.url}/{batch.file}"
        content = self.storage.read(batch.file)
        if len(content) != batch.size or hashlib.sha256(content).hexdigest() != batch.sha256:
            raise ModelFileError(
                f"{name} is truncated or foreign: {len(content):,} bytes where the manifest says {batch.size:,} "
                f"with digest {batch.sha256[:12]}…; restore it"
            )
        parts = from_parquet(content, bins, name)
        if len(parts) != len(batch.ids):
            raise ModelFileError(f"{name} holds {len(parts)} batches where the manifest says {len(batch.ids)}")
        return parts

    def _without(self, held: Batch, batch: str) -> tuple[Batch, ...]:
        """The file of several batches written again without one of them; nothing is left of a file of one."""
        rest = [number for number, name in enumerate(held.ids) if name != batch]
        if not rest:
            return ()
        parts = self.read_parts(held, self.bins(held.fingerprint))
        ids, digests, kept = zip(*((held.ids[n], held.digests[n], parts[n]) for n in rest), strict=True)
        return (self.write_parts(ids, digests, held.day, kept),)

    def write_parts(self, ids: tuple[str, ...], digests: tuple[str, ...], day: str, parts: Sequence[Cells]) -> Batch:
        """A file of several batches, still to be named by a manifest."""
        content = to_parquet(parts)
        entry = entry_of(ids, digests, day, parts, content)
        self.storage.write(entry.file, content)
        return entry

    def _restore_if_gone(self, held: Batch, content: bytes) -> None:
        """Write a batch's file again if it was deleted before the manifest named it."""
        if hashlib.sha256(content).hexdigest() != held.sha256:
            return
        try:
            self.storage.read(held.file)
        except FileNotFoundError:
            self.storage.write(held.file, content)

    def _refuse_foreign_folder(self) -> None:
        if self.log.numbers():
            self.manifest()
            return
        known = ("manifest/", "bins/", "cells/", "models/", "records/", "history/", "monitor/")
        if foreign := [name for name in self.storage.names("") if not name.startswith(known)]:
            raise ModelFileError(
                f"{self.storage.url} is no store of cells ({FORMAT}): it holds {foreign[0]!r}; choose an empty folder"
            )
