"""The store: cells by day, appended in batches, read as windows, compacted; safe against crashes and other writers.

A batch is first written under a name of its own, then named in a new manifest. What no manifest names does not exist,
so a writer that dies at any point leaves the store as it was.
"""

import datetime
import hashlib
import os
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mbct.errors import DataError, ModelFileError, StorageError
from mbct.model.bins import CodeMatrix, FeatureBins
from mbct.store.cell_file import bins_from_json, bins_to_json, from_parquet, to_parquet
from mbct.store.decision_log import DocumentLog
from mbct.store.manifest import EMPTY, FORMAT, Batch, Manifest, as_day, days_between
from mbct.store.storage import open_place
from mbct.training.cells import Cells, build_cells
from mbct.validation import FloatArray

_MANIFESTS_KEPT = 20
_GRACE_SECONDS = 3600.0
"""Unnamed files younger than this may belong to a writer that is about to name them, or to a reader."""
_MOST_READS = 20


@dataclass(frozen=True)
class Window:
    """Cells of consecutive days, older days faded, and where they came from."""

    cells: Cells
    bins: FeatureBins
    first_day: str
    last_day: str
    batches: tuple[Batch, ...]
    half_life: float | None


class CellStore:
    """A folder of cells by day, local or at any fsspec URL.

    Any number of processes may append, read and compact at once.
    """

    def __init__(self, url: str | os.PathLike[str]):
        self.place = open_place(url)
        self.log = DocumentLog(self.place, "manifest", EMPTY, _MANIFESTS_KEPT)
        self._refuse_foreign_folder()

    def append(self, cells: Cells, bins: FeatureBins, *, day: str | datetime.date, batch: str) -> Batch:
        """Add the cells of one batch; a batch that is there already is left alone.

        ``batch`` names the rows (a file, an hour, a job's run), so that a job that is run twice counts once.
        """
        if not batch:
            raise DataError("batch must be a name that tells the rows apart, such as '2024-05-01T13'")
        if cells.fingerprint != bins.fingerprint:
            raise DataError(f"the cells were coded with bins {cells.fingerprint}, not with {bins.fingerprint}")
        self._keep_bins(bins)
        content = to_parquet(cells)
        entry = _entry((batch,), as_day(day), cells, content)
        manifest = self.manifest()
        if manifest.find(batch) is None:
            self.place.write(entry.file, content)

        def add(body: dict[str, object]) -> dict[str, object]:
            newest = self._manifest_of(body)
            if newest.first_day is not None and entry.day < newest.first_day:
                raise DataError(f"day {entry.day} was dropped: the store keeps days from {newest.first_day} on")
            return newest.replaced((), (entry,)).to_dict()

        body = self.log.change(add, lambda body: self._manifest_of(body).find(batch) is not None)
        held = self._manifest_of(body).find(batch)
        if held is None:
            raise StorageError(f"batch {batch!r} was not stored")
        if held.file != entry.file:
            self.place.remove(entry.file)
            if len(held.ids) == 1 and not held.same_content(entry):
                raise DataError(
                    f"batch {batch!r} of {held.day} is in the store with {held.count:g} rows and {held.label:g} "
                    f"positives; these are {entry.count:g} and {entry.label:g} of {entry.day}: choose another name"
                )
        return held

    def manifest(self) -> Manifest:
        """What the store holds now."""
        return self._manifest_of(self.log.newest()[1])

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
    ) -> Window:
        """Cells of the last ``days`` days up to ``until`` (the newest day), added up.

        With ``half_life`` a row that is that many days older than the last day counts one half. ``fingerprint``
        chooses among bins where the days were coded with different ones.
        """
        if days is not None and days < 1:
            raise DataError(f"days={days!r} must be at least 1")
        if half_life is not None and not half_life > 0.0:
            raise DataError(f"half_life={half_life!r} must be above 0 days")
        for _ in range(_MOST_READS):
            chosen = self._choose(self.manifest(), days, None if until is None else as_day(until), fingerprint)
            try:
                return self._read_window(chosen, half_life)
            except FileNotFoundError as error:
                missing = str(error)
                if self._choose(self.manifest(), days, chosen[-1].day, chosen[-1].fingerprint) == chosen:
                    break
        raise ModelFileError(f"a file of cells is gone from {self.place.url}: {missing}; restore it")

    def compact(self, *, keep_days: int | None = None, grace_seconds: float = _GRACE_SECONDS) -> Manifest:
        """Join the batches of each day into one file, drop days beyond the newest ``keep_days``, delete leftovers.

        Files that no manifest names are deleted once they are older than ``grace_seconds``: younger ones may belong
        to a batch that is being appended.
        """
        if keep_days is not None:
            self._drop_days(keep_days)
        groups: dict[tuple[str, str, bool], list[Batch]] = {}
        for batch in self.manifest().batches:
            groups.setdefault((batch.day, batch.fingerprint, batch.one_score), []).append(batch)
        for batches in groups.values():
            if len(batches) > 1:
                self._join(batches)
        self._delete_leftovers(grace_seconds)
        return self.manifest()

    def verify(self) -> list[str]:
        """Faults of the store, one sentence each: files that are missing, damaged, or not named by the manifest."""
        present = self.place.names("cells")
        manifest = self.manifest()
        faults = []
        for batch in manifest.batches:
            try:
                self._read(batch, self.bins(batch.fingerprint))
            except FileNotFoundError:
                faults.append(f"{self.place.url}/{batch.file} is missing")
            except ModelFileError as error:
                faults.append(str(error))
        named = {batch.file for batch in manifest.batches}
        faults.extend(f"{self.place.url}/{name} is named by no manifest" for name in present if name not in named)
        return faults

    def bins(self, fingerprint: str) -> FeatureBins:
        """The bins that cells of this fingerprint were coded with."""
        name = f"bins/{fingerprint}.json"
        try:
            bins = bins_from_json(self.place.read(name), f"{self.place.url}/{name}")
        except FileNotFoundError as error:
            raise ModelFileError(f"{self.place.url}/{name} is missing: restore it") from error
        if bins.fingerprint != fingerprint:
            raise ModelFileError(f"{self.place.url}/{name} was changed after it was written: restore it")
        return bins

    def _keep_bins(self, bins: FeatureBins) -> None:
        self.place.create(f"bins/{bins.fingerprint}.json", bins_to_json(bins))

    def _choose(
        self, manifest: Manifest, days: int | None, until: str | None, fingerprint: str | None
    ) -> tuple[Batch, ...]:
        batches = [b for b in manifest.batches if until is None or b.day <= until]
        if not batches:
            raise DataError(f"{self.place.url} holds no cells" + ("" if until is None else f" up to {until}"))
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
            raise DataError(f"{self.place.url} holds no cells of the last {days} days up to {last}")
        return chosen

    def _read_window(self, batches: Sequence[Batch], half_life: float | None) -> Window:
        bins = self.bins(batches[0].fingerprint)
        first, last = batches[0].day, batches[-1].day
        parts = []
        for batch in batches:
            cells = self._read(batch, bins)
            fade = 1.0 if half_life is None else 0.5 ** (days_between(batch.day, last) / half_life)
            parts.append(cells if fade == 1.0 else cells.decay(fade))
        return Window(parts[0].merge(*parts[1:]), bins, first, last, tuple(batches), half_life)

    def _read(self, batch: Batch, bins: FeatureBins) -> Cells:
        name = f"{self.place.url}/{batch.file}"
        content = self.place.read(batch.file)
        if len(content) != batch.size or hashlib.sha256(content).hexdigest() != batch.sha256:
            raise ModelFileError(
                f"{name} is truncated or foreign: {len(content):,} bytes where the manifest says {batch.size:,} "
                f"with digest {batch.sha256[:12]}…; restore it"
            )
        return from_parquet(content, bins, name)

    def _join(self, batches: list[Batch]) -> None:
        """Put one file in the place of several, unless another process was faster."""
        bins = self.bins(batches[0].fingerprint)
        try:
            parts = [self._read(batch, bins) for batch in batches]
        except FileNotFoundError:
            return
        cells = parts[0].merge(*parts[1:])
        content = to_parquet(cells)
        joined = _entry(tuple(i for batch in batches for i in batch.ids), batches[0].day, cells, content)
        self.place.write(joined.file, content)

        def swap(body: dict[str, object]) -> dict[str, object] | None:
            newest = self._manifest_of(body)
            if not set(batches) <= set(newest.batches):
                return None
            return newest.replaced(batches, (joined,)).to_dict()

        body = self.log.change(swap, lambda body: joined in self._manifest_of(body).batches)
        if joined not in self._manifest_of(body).batches:
            self.place.remove(joined.file)

    def _drop_days(self, keep_days: int) -> None:
        if keep_days < 1:
            raise DataError(f"keep_days={keep_days!r} must be at least 1")
        manifest = self.manifest()
        if not manifest.batches:
            return
        newest = datetime.date.fromisoformat(manifest.batches[-1].day)
        first = (newest - datetime.timedelta(days=keep_days - 1)).isoformat()

        def drop(body: dict[str, object]) -> dict[str, object]:
            held = self._manifest_of(body)
            left = tuple(batch for batch in held.batches if batch.day >= first)
            return replace(held, batches=left, first_day=max(first, held.first_day or first)).to_dict()

        def dropped(body: dict[str, object]) -> bool:
            held = self._manifest_of(body)
            return (held.first_day or "") >= first and all(batch.day >= first for batch in held.batches)

        self.log.change(drop, dropped)

    def _delete_leftovers(self, grace_seconds: float) -> None:
        # The files are listed before the manifest is read: what is named by then stays.
        present = self.place.names("cells")
        named = {batch.file for batch in self.manifest().batches}
        for name in present:
            if name not in named and self.place.age(name) >= grace_seconds:
                self.place.remove(name)

    def _manifest_of(self, body: dict[str, object]) -> Manifest:
        return Manifest.from_dict(body, self.place.url)

    def _refuse_foreign_folder(self) -> None:
        if self.log.numbers():
            self.manifest()
            return
        known = ("manifest/", "bins/", "cells/", "models/", "records/")
        if foreign := [name for name in self.place.names("") if not name.startswith(known)]:
            raise ModelFileError(
                f"{self.place.url} is no store of cells ({FORMAT}): it holds {foreign[0]!r}; choose an empty folder"
            )


def _entry(ids: tuple[str, ...], day: str, cells: Cells, content: bytes) -> Batch:
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", ids[0])[:40].strip(".-") or "batch"
    total = cells.total
    return Batch(
        ids,
        day,
        f"cells/{day}/{readable}-{uuid.uuid4().hex[:12]}.parquet",
        hashlib.sha256(content).hexdigest(),
        len(content),
        cells.fingerprint,
        cells.one_score,
        len(cells),
        float(np.asarray(total.count)),
        float(np.asarray(total.label)),
    )


def cells_of_rows(codes: CodeMatrix, y_prob: FloatArray, y_true: FloatArray, bins: FeatureBins) -> Cells:
    """Cells of coded rows, ready to be appended."""
    return build_cells(codes, y_prob, y_true, None, bins, level="cell")
