"""The manifest: which files of cells make up the store, and what they must hold."""

import datetime
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from mbct.errors import DataError, ModelFileError

FORMAT = "mbct-store"
VERSION = 1
EMPTY: dict[str, Any] = {"format": FORMAT, "version": VERSION, "first_day": None, "batches": []}


@dataclass(frozen=True)
class Batch:
    """One file of cells: the batches in it, its day and bins, its digest, and how much it holds."""

    ids: tuple[str, ...]
    day: str
    file: str
    sha256: str
    size: int
    fingerprint: str
    one_score: bool
    n_cells: int
    count: float
    label: float

    def same_content(self, other: "Batch") -> bool:
        """Whether two files hold the same rows, as far as their totals tell."""
        return (self.day, self.fingerprint, _digits(self.count), _digits(self.label)) == (
            other.day,
            other.fingerprint,
            _digits(other.count),
            _digits(other.label),
        )


@dataclass(frozen=True)
class Manifest:
    """All batches; days before ``first_day`` were dropped for good."""

    batches: tuple[Batch, ...]
    first_day: str | None = None

    def find(self, batch_id: str) -> Batch | None:
        """The file that holds a batch."""
        return next((batch for batch in self.batches if batch_id in batch.ids), None)

    def replaced(self, gone: Iterable[Batch], come: Iterable[Batch]) -> "Manifest":
        """Some files for others, in the order of days and names."""
        left = [batch for batch in self.batches if batch not in set(gone)]
        return Manifest(tuple(sorted([*left, *come], key=lambda b: (b.day, b.file))), self.first_day)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {**EMPTY, "first_day": self.first_day, "batches": [asdict(batch) for batch in self.batches]}

    @classmethod
    def from_dict(cls, body: dict[str, Any], name: str) -> "Manifest":
        """Undo :meth:`to_dict`."""
        if body.get("format") != FORMAT:
            raise ModelFileError(f"{name} is not a store of cells (no format {FORMAT!r} in its manifest)")
        if not isinstance(body.get("version"), int) or body["version"] > VERSION:
            raise ModelFileError(f"{name} has version {body.get('version')!r}, newer than {VERSION}: upgrade mbct")
        try:
            batches = tuple(Batch(**{**item, "ids": tuple(item["ids"])}) for item in body["batches"])
            return cls(batches, body["first_day"])
        except (KeyError, TypeError) as error:
            raise ModelFileError(f"the manifest of {name} is damaged: {error}") from error


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


def _digits(value: float) -> str:
    return f"{value:.9g}"
