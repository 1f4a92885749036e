"""Following a model's source: a watched file or a pointer in Redis. What is new and good is swapped in, whole.

Whatever happens to the source, the last good model keeps serving; :class:`Health` says what is wrong.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from mbct.errors import MBCTError, ModelFileError, StorageError
from mbct.files import write_atomically
from mbct.model.file import read_bytes
from mbct.serving.cache import ChangeListener, ModelCache
from mbct.serving.loaded_model import ServedModel

log = logging.getLogger("mbct.serving")

_LISTEN_SECONDS = 0.5
"""Listening is done in pieces, shorter than the connection's time-out, so that closing is noticed soon."""
Build = Callable[[bytes, str], ServedModel]


class ModelSource(Protocol):
    """Where models come from."""

    def latest(self) -> str:
        """A mark of what the source holds now: another mark, another content. StorageError where it is away."""

    def read(self, mark: str) -> bytes:
        """The content behind a mark."""

    def wait(self, seconds: float) -> None:
        """Return when the source may have changed, after ``seconds`` at the latest."""

    def close(self) -> None:
        """End the waiting and give resources back."""


class FileSource:
    """A model file, looked at again and again; replace it by renaming, as ``save`` does."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._closed = threading.Event()

    def latest(self) -> str:
        """Time, size and number of the file."""
        try:
            found = self._path.stat()
        except OSError as error:
            raise StorageError(f"cannot read {self._path}: {error.strerror}") from error
        return f"{found.st_mtime_ns}-{found.st_size}-{found.st_ino}"

    def read(self, mark: str) -> bytes:  # noqa: ARG002 - a file has one content, whatever its mark was
        """The file's bytes."""
        return read_bytes(self._path)

    def wait(self, seconds: float) -> None:
        """Sleep, unless closed."""
        self._closed.wait(seconds)

    def close(self) -> None:
        """End the waiting."""
        self._closed.set()

    def __str__(self) -> str:
        return str(self._path)


class RedisSource:
    """The pointer of a :class:`~mbct.serving.cache.ModelCache`: told of moves by its channel, and polled besides."""

    def __init__(self, cache: ModelCache) -> None:
        self._cache = cache
        self._closed = threading.Event()
        self._listener: ChangeListener | None = None

    def latest(self) -> str:
        """The version in force."""
        version = self._cache.current()
        if version is None:
            raise StorageError(f"{self._cache} holds no model; publish one")
        return version

    def read(self, mark: str) -> bytes:
        """Content of a version, checksum compared."""
        return self._cache.read(mark)

    def wait(self, seconds: float) -> None:
        """Listen to the channel; where that fails, sleep, so that polling goes on."""
        end = time.monotonic() + seconds
        try:
            if self._listener is None:
                self._listener = self._cache.listener()
            while not self._closed.is_set() and (left := end - time.monotonic()) > 0:
                if self._listener.wait(min(left, _LISTEN_SECONDS)):
                    return
        except (StorageError, OSError, ValueError):
            # The polling that follows reports what is wrong; a fresh subscription is made next time.
            self._drop_listener()
            self._closed.wait(max(end - time.monotonic(), 0.0))

    def close(self) -> None:
        """End the waiting."""
        self._closed.set()

    def release(self) -> None:
        """Close the connections, once nothing waits any more."""
        self._drop_listener()
        self._cache.close()

    def _drop_listener(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def __str__(self) -> str:
        return str(self._cache)


@dataclass(frozen=True)
class Health:
    """How the source fares: ``problem`` in words, None where all is well."""

    source_up: bool = True
    problem: str | None = None
    swaps: int = 0
    refused: int = 0


class Follower:
    """Holds the model in force and replaces it from its source, in a thread of its own.

    ``last_good`` names a file for a copy of the model in force: where the source is away at the start, it serves.
    """

    def __init__(
        self,
        source: ModelSource,
        build: Build = lambda content, name: ServedModel(content, name),
        *,
        poll_seconds: float = 1.0,
        last_good: str | os.PathLike[str] | None = None,
    ) -> None:
        self._source, self._build, self._poll_seconds = source, build, poll_seconds
        self._last_good = None if last_good is None else Path(last_good)
        self._mark: str | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="mbct-model-follower", daemon=True)
        self.current: ServedModel | None = None
        self.health = Health()

    def start(self) -> None:
        """Load a first model if there is one, then follow the source."""
        self.look()
        if self.current is None and self._last_good is not None and self._last_good.exists():
            self._serve_last_good(self._last_good)
        self._thread.start()

    def stop(self) -> None:
        """End the following; the model in force stays."""
        self._stopped.set()
        self._source.close()
        if self._thread.is_alive():
            self._thread.join(timeout=self._poll_seconds + 5.0)
        if isinstance(self._source, RedisSource):
            self._source.release()

    def look(self) -> None:
        """One look at the source: swap in what is new and good, refuse what is bad, note what is wrong."""
        try:
            mark = self._source.latest()
            if mark == self._mark:
                self._recovered()
                return
            content = self._source.read(mark)
        except StorageError as error:
            self._note_absence(str(error))
            return
        except ModelFileError as error:
            self._refuse(mark, error)
            return
        self._recovered()
        try:
            served = self._build(content, f"the model of {self._source}")
        except MBCTError as error:
            self._refuse(mark, error)
            return
        self._mark = mark
        self._swap(served)

    def _follow(self) -> None:
        while not self._stopped.is_set():
            self._source.wait(self._poll_seconds)
            if self._stopped.is_set():
                return
            try:
                self.look()
            except Exception:
                log.exception("looking for a new model failed; the last good one keeps serving")

    def _swap(self, served: ServedModel) -> None:
        before = self.current
        self.current = served
        self.health = replace(self.health, source_up=True, problem=None, swaps=self.health.swaps + (before is not None))
        log.info("serving model %s%s", served.version, f" in place of {before.version}" if before else "")
        if self._last_good is not None:
            try:
                write_atomically(self._last_good, served.content)
            except StorageError as error:
                log.error("model %s serves, but its copy was not kept: %s", served.version, error)

    def _refuse(self, mark: str, error: MBCTError) -> None:
        # The same content is not tried again until the source changes.
        self._mark = mark
        keeps = f"model {self.current.version} keeps serving" if self.current else "there is no model to serve yet"
        problem = f"a new model was refused: {error}"
        self.health = replace(self.health, source_up=True, problem=problem, refused=self.health.refused + 1)
        log.error("%s; %s", problem, keeps)

    def _note_absence(self, problem: str) -> None:
        if self.health.source_up:
            keeps = f"model {self.current.version} keeps serving" if self.current else "there is no model to serve yet"
            log.error("%s; %s", problem, keeps)
        self.health = replace(self.health, source_up=False, problem=problem)

    def _recovered(self) -> None:
        if not self.health.source_up:
            log.info("%s is back", self._source)
            self.health = replace(self.health, source_up=True, problem=None)

    def _serve_last_good(self, path: Path) -> None:
        try:
            self.current = self._build(read_bytes(path), f"the last good model {path}")
        except MBCTError as error:
            log.error("%s", error)
            return
        log.warning("serving the last good model %s from %s until its source is back", self.current.version, path)
