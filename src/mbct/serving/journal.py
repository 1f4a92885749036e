"""The feedback's journal: what was scored and what came of it, on disk before it is acknowledged.

A folder holds lines of JSON in three kinds of file: ``scores-HOUR`` (scores that wait for their outcome),
``outcomes-N-ID`` (joined, not yet handed to the sink) and ``handed-N-ID`` (handed over; kept for a day, so that a
restart knows which scores have had their outcome). N orders the files; ID is random, so that no two files of outcomes
ever share a batch. A line is written by one system call, so a killed process loses none. ``checkpoint`` holds what was
learned from outcomes up to some line; the lines after it are taken again at a restart.
"""

import contextlib
import errno
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from mbct.errors import ParameterError, StorageError
from mbct.files import sync_folder, write_atomically
from mbct.model.bins import FeatureBins
from mbct.model.file_check import read_bins
from mbct.serving.options import FeedbackOptions
from mbct.validation import FloatArray

log = logging.getLogger("mbct.serving")

_HOUR, _DAY = 3600, 86_400.0
_CHECKPOINT = "checkpoint"
_TAIL_BYTES = 2**20
Line = TypeVar("Line", bound=msgspec.Struct)


class Remembered(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A score that waits for its outcome."""

    id: str
    number: int
    """Rises with every score of a journal, whatever the clock does."""
    at: float
    bins: str
    """Fingerprint of the bins that made the codes."""
    codes: list[int]
    score: float
    calibrated: float
    """As it was answered."""
    segment: str | None
    model: str = ""
    """Version that scored."""
    frozen: float | None = None
    """The model's own probability, where the online layer has changed it."""


class Joined(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A score with its outcome."""

    scored: Remembered
    at: float
    label: int


class Checkpoint(msgspec.Struct):
    """What was learned from outcomes up to a position: the number of a file, and how many of its lines."""

    position: tuple[int, int] = (0, 0)
    state: dict[str, Any] | None = None


def as_columns(lines: Sequence[Joined]) -> tuple[FloatArray, FloatArray, list[str | None]]:
    """Calibrated probability, label and segment of outcomes."""
    calibrated = np.array([line.scored.calibrated for line in lines])
    return calibrated, np.array([float(line.label) for line in lines]), [line.scored.segment for line in lines]


class Journal:
    """The files of one service; a second service on the same folder is refused."""

    def __init__(self, folder: Path, options: FeedbackOptions, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._remember_seconds, self._clock = folder, options.remember_seconds, clock
        self._fsync = options.fsync
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot make the feedback folder {folder}: {error.strerror}") from error
        self._lock = _locked(folder)
        used = max((_order(path) for path in self._files("outcomes", "handed")), default=0)
        self._outcomes = self._new_outcomes(used + 1)
        self._scores: _Appender | None = None
        self._checkpoint_order = 0

    def joined(self) -> Iterator[Joined]:
        """Outcomes of the last day, as they were before a restart."""
        for path in self._files("handed", "outcomes"):
            yield from read_lines(path, Joined)

    def waiting(self, newest_joined: dict[str, int]) -> Iterator[Remembered]:
        """Scores without an outcome; ``newest_joined`` has the number of each id's newest score that has one."""
        for path in self._files("scores"):
            for line in read_lines(path, Remembered):
                if newest_joined.get(line.id, -1) < line.number:
                    yield line

    @property
    def position(self) -> tuple[int, int]:
        """Number of the file that outcomes are written to, and how many lines it has."""
        return _order(self._outcomes.path), self._outcomes.n_lines

    def save_checkpoint(self, position: tuple[int, int], state: dict[str, Any]) -> None:
        """Keep what was learned from the outcomes up to a position; may run in a thread."""
        write_atomically(self._folder / _CHECKPOINT, msgspec.json.encode(Checkpoint(position, state)))
        self._checkpoint_order = position[0]

    def checkpoint(self) -> tuple[dict[str, Any] | None, list[Joined]]:
        """The state that was kept, and the outcomes after it; None and all outcomes where there is none."""
        kept = Checkpoint()
        with contextlib.suppress(FileNotFoundError):
            try:
                kept = msgspec.json.decode((self._folder / _CHECKPOINT).read_bytes(), type=Checkpoint)
            except msgspec.DecodeError as error:
                log.warning("the checkpoint in %s is damaged (%s): all outcomes are taken again", self._folder, error)
        (order, taken), state = kept.position, kept.state
        self._checkpoint_order = order
        files = [(_order(path), path) for path in self._files("handed", "outcomes")]
        after = [list(read_lines(path, Joined))[taken if n == order else 0 :] for n, path in files if n >= order]
        return state, [line for lines in after for line in lines]

    def add_scores(self, scores: Iterable[Remembered]) -> None:
        """Keep scores; StorageError where they cannot be written."""
        path = self._folder / f"scores-{int(self._clock()) // _HOUR}"
        if self._scores is None or self._scores.path != path:
            if self._scores is not None:
                self._scores.close()
            self._scores = _Appender(path, sync=self._fsync == "always")
            self._forget()
        self._scores.append(scores)

    def add_outcomes(self, joined: Iterable[Joined]) -> None:
        """Keep outcomes; StorageError where they cannot be written, and then none of them is."""
        self._outcomes.append(joined)

    def sync(self) -> None:
        """Bring what was written to the disk itself, where the policy is to do so now and then; may run in a thread."""
        if self._fsync == "interval":
            for appender in (self._scores, self._outcomes):
                if appender is not None:
                    appender.sync()

    def remember_bins(self, bins: FeatureBins) -> None:
        """Keep the bins that codes were made with."""
        path = self._folder / f"bins-{bins.fingerprint}"
        if not path.exists():
            write_atomically(path, msgspec.json.encode(bins.to_list()))

    def bins(self, fingerprint: str) -> FeatureBins:
        """Bins kept before."""
        return read_bins(msgspec.json.decode((self._folder / f"bins-{fingerprint}").read_bytes()))

    def seal(self) -> None:
        """Begin a new file of outcomes, so that the ones before can be handed over."""
        if self._outcomes.path.exists():
            self._outcomes.close()
            self._outcomes = self._new_outcomes(_order(self._outcomes.path) + 1)

    def sealed(self) -> list[Path]:
        """Files that wait to be handed over, the oldest first."""
        return [path for path in self._files("outcomes") if path != self._outcomes.path]

    def mark_handed(self, path: Path) -> None:
        """A file's outcomes are in the sink."""
        path.rename(path.with_name(path.name.replace("outcomes-", "handed-", 1)))

    def close(self) -> None:
        """Close the files and let another service use the folder."""
        self._outcomes.close()
        if self._scores is not None:
            self._scores.close()
        os.close(self._lock)

    def _new_outcomes(self, order: int) -> "_Appender":
        return _Appender(self._folder / f"outcomes-{order}-{uuid.uuid4().hex}", sync=self._fsync == "always")

    def _forget(self) -> None:
        oldest = self._clock() - self._remember_seconds - _HOUR
        handed = [path for path in self._files("handed") if _order(path) < self._checkpoint_order]
        for path in [*self._files("scores"), *handed]:
            if path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)

    def _files(self, *kinds: str) -> list[Path]:
        return sorted((path for kind in kinds for path in self._folder.glob(f"{kind}-*")), key=_order)


class _Appender:
    """Whole lines at the end of a file, which is made when the first one comes; a torn last line is cut off."""

    def __init__(self, path: Path, *, sync: bool) -> None:
        self.path = path
        self.n_lines = 0
        self._always_sync = sync
        self._unsynced = False
        self._descriptor: int | None = None

    def append(self, lines: Iterable[msgspec.Struct]) -> None:
        encoded = [msgspec.json.encode(line) + b"\n" for line in lines]
        content = b"".join(encoded)
        try:
            descriptor = self._open() if self._descriptor is None else self._descriptor
            size = os.fstat(descriptor).st_size
            try:
                if os.write(descriptor, content) < len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if self._always_sync:
                    os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, size)  # what was not acknowledged must not count after a restart
                raise
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error.strerror}; free some space") from error
        self._unsynced = True
        self.n_lines += len(encoded)

    def sync(self) -> None:
        """Bring what was written to the disk."""
        descriptor = self._descriptor
        if self._unsynced and descriptor is not None:
            self._unsynced = False
            with contextlib.suppress(OSError):  # closed by the event loop meanwhile: closing syncs too
                os.fsync(descriptor)

    def close(self) -> None:
        if self._descriptor is not None:
            self.sync()
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._descriptor = descriptor
        size = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, min(size, _TAIL_BYTES), max(0, size - _TAIL_BYTES))
        if tail and not tail.endswith(b"\n"):
            # A line that was cut short was never acknowledged; what follows must not be glued to it.
            os.ftruncate(descriptor, size - len(tail) + tail.rfind(b"\n") + 1)
        sync_folder(self.path.parent)
        return descriptor


def _order(path: Path) -> int:
    return int(path.name.split("-")[1])


def outcome_delays(folder: Path, now: float, segment: str | None = None) -> tuple[list[float], list[float]]:
    """Days from each score in a journal to its positive outcome, and days that it was watched up to ``now``.

    Infinity stands where no positive came; a reported negative is final, so it is watched to the end. The two lists are
    what :func:`~mbct.stats.maturity.maturity_of_delays` takes, of one ``segment`` or of all rows; a service on the
    folder may go on meanwhile.
    """
    files = [*folder.glob("handed-*"), *folder.glob("outcomes-*")]
    joined = [line for path in files for line in read_lines(path, Joined) if segment in (None, line.scored.segment)]
    scores = [line for path in folder.glob("scores-*") for line in read_lines(path, Remembered)]
    scored = [line for line in scores if segment in (None, line.segment)]
    answered = {line.scored.number for line in joined}
    waiting = [line for line in scored if line.number not in answered]
    oldest = min([line.scored.at for line in joined] + [line.at for line in waiting], default=now)
    delay = [(line.at - line.scored.at) / _DAY if line.label else inf for line in joined] + [inf] * len(waiting)
    watched = [(now - (line.scored.at if line.label else oldest)) / _DAY for line in joined]
    return delay, watched + [(now - line.at) / _DAY for line in waiting]


def read_lines(path: Path, kind: type[Line]) -> Iterator[Line]:
    """The whole lines of a file."""
    decoder = msgspec.json.Decoder(kind)
    with path.open("rb") as handle:
        for line in handle:
            # A line cut short was never acknowledged.
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                yield decoder.decode(line)


def _locked(folder: Path) -> int:
    descriptor = os.open(folder / "lock", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        return descriptor
    except OSError as error:
        os.close(descriptor)
        raise ParameterError(f"another service uses the feedback folder {folder}; give each its own") from error
    return descriptor
