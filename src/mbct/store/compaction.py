"""Tidying a store: files of a day joined, old days dropped, leftovers deleted; others may write meanwhile."""

import datetime
from dataclasses import replace
from typing import TYPE_CHECKING

from mbct.errors import DataError
from mbct.store.manifest import Batch, Manifest
from mbct.store.storage import clock

if TYPE_CHECKING:
    from mbct.store.cell_store import CellStore


def join_batches(store: "CellStore") -> None:
    """Join the files of each day and bins into one; the batches stay apart inside it."""
    groups: dict[tuple[str, str, bool], list[Batch]] = {}
    for batch in store.manifest().batches:
        groups.setdefault((batch.day, batch.fingerprint, batch.one_score), []).append(batch)
    for batches in groups.values():
        if len(batches) > 1:
            _join(store, batches)


def _join(store: "CellStore", batches: list[Batch]) -> None:
    """Put one file in the place of several, unless another process was faster."""
    bins = store.bins(batches[0].fingerprint)
    try:
        parts = [cells for batch in batches for cells in store.read_parts(batch, bins)]
    except FileNotFoundError:
        return
    ids = tuple(name for batch in batches for name in batch.ids)
    digests = tuple(digest for batch in batches for digest in batch.digests)
    joined = store.write_parts(ids, digests, batches[0].day, parts)

    def swap(newest: Manifest) -> Manifest | None:
        return newest.replaced(batches, (joined,)) if set(batches) <= set(newest.batches) else None

    if joined not in store.change(swap).batches:
        store.storage.remove(joined.file)


def drop_days(store: "CellStore", keep_days: int) -> None:
    """Drop all but the newest days, for good."""
    if keep_days < 1:
        raise DataError(f"keep_days={keep_days!r} must be at least 1")
    manifest = store.manifest()
    if not manifest.batches:
        return
    newest = datetime.date.fromisoformat(manifest.batches[-1].day)
    first = (newest - datetime.timedelta(days=keep_days - 1)).isoformat()

    def drop(held: Manifest) -> Manifest | None:
        left = tuple(batch for batch in held.batches if batch.day >= first)
        dropped = replace(held, batches=left, first_day=max(first, held.first_day or first))
        return None if dropped == held else dropped

    store.change(drop)


def delete_leftovers(store: "CellStore", grace_seconds: float) -> None:
    """Delete files that no manifest names, once they are old enough."""
    # The files are listed before the manifest is read: what is named by then stays.
    present = store.storage.names("cells")
    named = {batch.file for batch in store.manifest().batches}
    leftovers = [name for name in present if name not in named]
    # Ages are differences of the storage's own times: the clock of this machine may be wrong.
    now = clock(store.storage) if leftovers and grace_seconds > 0.0 else None
    for name in leftovers:
        written = store.storage.written_at(name)
        old = now is not None and written is not None and now - written >= grace_seconds
        if old or grace_seconds <= 0.0:
            store.storage.remove(name)
