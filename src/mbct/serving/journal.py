"""The feedback's journal: what was scored and what came of it, on disk before it is acknowledged.

A folder holds lines of JSON in three kinds of file: ``scores-HOUR`` (scores that wait for their outcome),
``outcomes-N`` (joined, not yet handed to the sink) and ``handed-N`` (handed over; kept for a day, so that a restart
knows which scores have had their outcome). A line is written by one system call, so a killed process loses none.
"""

import contextlib
import errno
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from mbct.errors import ParameterError, StorageError
from mbct.files import write_atomically
from mbct.model.bins import FeatureBins

_HOUR = 3600
Line = TypeVar("Line", bound=msgspec.Struct)


class Remembered(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A score that waits for its outcome."""

    id: str
    at: float
    bins: str
    """Fingerprint of the bins that made the codes."""
    codes: list[int]
    score: float
    calibrated: float
    segment: str | None


class Joined(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A score with its outcome."""

    scored: Remembered
    at: float
    label: int


class Journal:
    """The files of one service; a second service on the same folder is refused."""

    def __init__(self, folder: Path, remember_seconds: float, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._remember_seconds, self._clock = folder, remember_seconds, clock
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot make the feedback folder {folder}: {error.strerror}") from error
        self._lock = _locked(folder)
        self.instance = self._read_instance()
        used = max((_number(path) for path in self._files("outcomes", "handed")), default=0)
        self._outcomes = _Appender(folder / f"outcomes-{used + 1}")
        self._scores: _Appender | None = None

    def replay(self) -> tuple[list[Remembered], list[Joined]]:
        """Scores without an outcome and outcomes of the last day, as they were before a restart."""
        joined = [line for path in self._files("handed", "outcomes") for line in _lines(path, Joined)]
        known = {line.scored.id: line.scored.at for line in joined}
        scores = [line for path in self._files("scores") for line in _lines(path, Remembered)]
        return [line for line in scores if known.get(line.id, -1.0) < line.at], joined

    def add_scores(self, scores: Iterable[Remembered]) -> None:
        """Keep scores; StorageError where they cannot be written."""
        path = self._folder / f"scores-{int(self._clock()) // _HOUR}"
        if self._scores is None or self._scores.path != path:
            if self._scores is not None:
                self._scores.close()
            self._scores = _Appender(path)
            self._forget()
        self._scores.append(scores)

    def add_outcomes(self, joined: Iterable[Joined]) -> None:
        """Keep outcomes; StorageError where they cannot be written, and then none of them is."""
        self._outcomes.append(joined)

    def remember_bins(self, bins: FeatureBins) -> None:
        """Keep the bins that codes were made with."""
        path = self._folder / f"bins-{bins.fingerprint}"
        if not path.exists():
            write_atomically(path, msgspec.json.encode(bins.to_list()))

    def bins(self, fingerprint: str) -> FeatureBins:
        """Bins kept before."""
        return FeatureBins.from_list(msgspec.json.decode((self._folder / f"bins-{fingerprint}").read_bytes()))

    def seal(self) -> None:
        """Begin a new file of outcomes, so that the ones before can be handed over."""
        if self._outcomes.path.exists():
            self._outcomes.close()
            self._outcomes = _Appender(self._folder / f"outcomes-{_number(self._outcomes.path) + 1}")

    def sealed(self) -> list[tuple[int, list[Joined]]]:
        """Numbers and content of the files that wait to be handed over."""
        waiting = [path for path in self._files("outcomes") if path != self._outcomes.path]
        return [(_number(path), list(_lines(path, Joined))) for path in waiting]

    def mark_handed(self, number: int) -> None:
        """A file's outcomes are in the sink."""
        (self._folder / f"outcomes-{number}").rename(self._folder / f"handed-{number}")

    def close(self) -> None:
        """Close the files and let another service use the folder."""
        self._outcomes.close()
        if self._scores is not None:
            self._scores.close()
        os.close(self._lock)

    def _forget(self) -> None:
        oldest = self._clock() - self._remember_seconds - _HOUR
        for path in self._files("scores", "handed"):
            if path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)

    def _files(self, *kinds: str) -> list[Path]:
        return sorted((path for kind in kinds for path in self._folder.glob(f"{kind}-*")), key=_number)

    def _read_instance(self) -> str:
        path = self._folder / "instance"
        if not path.exists():
            write_atomically(path, uuid.uuid4().hex[:12].encode())
        return path.read_text()


class _Appender:
    """Whole lines at the end of a file, which is made when the first one comes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def append(self, lines: Iterable[msgspec.Struct]) -> None:
        content = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            size = os.fstat(self._descriptor).st_size
            written = os.write(self._descriptor, content)
            if written < len(content):
                os.ftruncate(self._descriptor, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error.strerror}; free some space") from error

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _number(path: Path) -> int:
    return int(path.name.partition("-")[2])


def _lines(path: Path, kind: type[Line]) -> Iterator[Line]:
    decoder = msgspec.json.Decoder(kind)
    for line in path.read_bytes().splitlines():
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
