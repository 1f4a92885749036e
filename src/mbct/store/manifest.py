"""The manifest: which files of cells make up the store, and what they must hold."""

import datetime
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from mbct.errors import DataError, ModelFileError

FORMAT = "mbct-store"
VERSION = 2
_FILE = re.compile(r"cells/\d{4}-\d{2}-\d{2}/[A-Za-z0-9_-][A-Za-z0-9._-]*\.parquet")
"""Names of files of cells: none of them can lead out of the store."""
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")
_SNAPSHOT_DAYS = 60  # Of so many of the newest days it is noted when their labels came
EMPTY: dict[str, Any] = {"format": FORMAT, "version": VERSION, "first_day": None, "batches": []}


@dataclass(frozen=True)
class Batch:
    """One file of cells: the batches in it, its day and bins, its digest, and how much it holds.

    ``digests`` are those of the batches' cells, in the order of ``ids``; ``sha256`` is that of the file.
    """

    ids: tuple[str, ...]
    digests: tuple[str, ...]
    day: str
    file: str
    sha256: str
    size: int
    fingerprint: str
    one_score: bool
    n_cells: int
    count: float
    label: float

    def digest_of(self, batch_id: str) -> str:
        """Digest of the cells of one batch."""
        return self.digests[self.ids.index(batch_id)]


@dataclass(frozen=True)
class DaySnapshot:
    """Rows and positives of a day as they were known on another."""

    day: str
    seen: str
    rows: float
    positives: float


@dataclass(frozen=True)
class Manifest:
    """All batches; days before ``first_day`` were dropped for good. ``snapshots`` tell how labels came in late."""

    batches: tuple[Batch, ...]
    first_day: str | None = None
    snapshots: tuple[DaySnapshot, ...] = ()

    def find(self, batch_id: str) -> Batch | None:
        """The file that holds a batch."""
        return next((batch for batch in self.batches if batch_id in batch.ids), None)

    def replaced(self, gone: Iterable[Batch], come: Iterable[Batch]) -> "Manifest":
        """Some files for others, in the order of days and names."""
        removed = set(gone)
        left = [batch for batch in self.batches if batch not in removed]
        return replace(self, batches=tuple(sorted([*left, *come], key=lambda b: (b.day, b.file))))

    def noted(self, day: str, seen: str) -> "Manifest":
        """What is held of a day, noted as seen on a date; notes of the newest days are kept."""
        of_day = [batch for batch in self.batches if batch.day == day]
        note = DaySnapshot(day, seen, sum(b.count for b in of_day), sum(b.label for b in of_day))
        notes = {(one.day, one.seen): one for one in (*self.snapshots, note)}
        newest = max(one.day for one in notes.values())
        kept = [one for one in notes.values() if days_between(one.day, newest) < _SNAPSHOT_DAYS]
        return replace(self, snapshots=tuple(sorted(kept, key=lambda one: (one.day, one.seen))))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        lists = {name: [asdict(each) for each in getattr(self, name)] for name in ("batches", "snapshots")}
        return {**EMPTY, "first_day": self.first_day, **lists}

    @classmethod
    def from_dict(cls, body: dict[str, Any], name: str) -> "Manifest":
        """Undo :meth:`to_dict`."""
        if body.get("format") != FORMAT:
            raise ModelFileError(f"{name} is not a store of cells (no format {FORMAT!r} in its manifest)")
        if body.get("version") != VERSION:
            raise ModelFileError(
                f"{name} has version {body.get('version')!r}, this mbct reads {VERSION}: use the mbct that wrote it"
            )
        try:
            batches = tuple(_batch(item) for item in body["batches"])
            snapshots = tuple(DaySnapshot(**item) for item in body.get("snapshots", []))
            return cls(batches, None if body["first_day"] is None else as_day(body["first_day"]), snapshots)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"the manifest of {name} is damaged: {error}") from error


def _batch(item: dict[str, Any]) -> Batch:
    batch = Batch(**{**item, "ids": tuple(item["ids"]), "digests": tuple(item["digests"])})
    if not batch.ids or len(batch.ids) != len(batch.digests):
        raise ValueError(f"{len(batch.ids)} batches with {len(batch.digests)} digests in {batch.file!r}")
    if not _FILE.fullmatch(batch.file) or batch.file.split("/")[1] != as_day(batch.day):
        raise ValueError(f"{batch.file!r} is no file of cells of {batch.day!r}")
    if not _FINGERPRINT.fullmatch(batch.fingerprint):
        raise ValueError(f"{batch.fingerprint!r} is no fingerprint of bins")
    return batch


def as_day(day: str | datetime.date) -> str:
    """A day as YYYY-MM-DD.

    >>> as_day(datetime.date(2024, 5, 1))
    '2024-05-01'
    """
    if isinstance(day, datetime.datetime):
        day = day.date()
    if isinstance(day, datetime.date):
        return day.isoformat()
    try:
        return datetime.date.fromisoformat(day).isoformat()
    except (TypeError, ValueError) as error:
        raise DataError(f"day {day!r} must be a date or text like '2024-05-01'") from error


def days_between(earlier: str, later: str) -> int:
    """Whole days from one day to another."""
    return (datetime.date.fromisoformat(later) - datetime.date.fromisoformat(earlier)).days


def day_number(day: str) -> int:
    """Days since 1970-01-01."""
    return days_between("1970-01-01", day)
