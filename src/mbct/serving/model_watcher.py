"""Watching a model's source, a file or a registry: what is new and good is swapped in, in one step.

Whatever happens to the source, the last good model keeps serving; :class:`Health` says what is wrong.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mbct.errors import MBCTError, ModelFileError, StorageError
from mbct.files import write_atomically
from mbct.model.file import read_bytes
from mbct.serving.loaded_model import LoadedModel
from mbct.store.model_registry import ModelRegistry
from mbct.store.redis_backend import RedisBackend

log = logging.getLogger("mbct.serving")

_LISTEN_SECONDS = 0.5
"""Listening is done in pieces, shorter than the connection's time-out, so that the end is noticed soon."""
Build = Callable[[bytes, str], LoadedModel]


class FileSource:
    """A model file, looked at again and again; replace it by renaming, as ``save`` does."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def in_service(self) -> str:
        """A mark of what the file holds now, its time, size and number: another mark, another content."""
        try:
            found = self._path.stat()
        except OSError as error:
            raise StorageError(f"cannot read {self._path}: {error.strerror}") from error
        return f"{found.st_mtime_ns}-{found.st_size}-{found.st_ino}"

    def read(self, mark: str) -> bytes:  # noqa: ARG002 - a file has one content, whatever its mark was
        """The file's bytes."""
        return read_bytes(self._path)

    def close(self) -> None:
        """Nothing is held open."""

    def __str__(self) -> str:
        return str(self._path)


ModelSource = FileSource | ModelRegistry


@dataclass(frozen=True)
class Health:
    """How the source fares.

    ``problem`` is for anyone to see, without addresses; ``detail`` says all. Both are None where all is well.
    """

    source_up: bool = True
    problem: str | None = None
    detail: str | None = None
    swaps: int = 0
    refused: int = 0


class ModelWatcher:
    """Holds the model in service and replaces it from its source, in a thread of its own.

    ``last_good`` names a file for a copy of the model in service: where the source is away at the start, it serves.
    A model that refuses requests which the one before it took is swapped in only with ``allow_other_columns``.
    """

    def __init__(
        self,
        source: ModelSource,
        build: Build = LoadedModel,
        *,
        poll_seconds: float = 1.0,
        last_good: str | os.PathLike[str] | None = None,
        allow_other_columns: bool = False,
    ) -> None:
        self._source, self._build, self._poll_seconds = source, build, poll_seconds
        self._last_good = None if last_good is None else Path(last_good)
        self._allow_other_columns = allow_other_columns
        self._mark: str | None = None
        self._listener: Any = None
        self._stopped = threading.Event()
        self._looking = threading.Lock()
        self._thread = threading.Thread(target=self._watch, name="mbct-model-watcher", daemon=True)
        self.current: LoadedModel | None = None
        self.health = Health()

    def start(self) -> None:
        """Load a first model if there is one, then watch the source."""
        if self.current is None:
            self.look()
        if self.current is None and self._last_good is not None and self._last_good.exists():
            self._serve_last_good(self._last_good)
        self._thread.start()

    def stop(self) -> None:
        """End the watching; the model in service stays."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=self._poll_seconds + 5.0)
        self._drop_listener()
        self._source.close()

    def look(self) -> None:
        """One look at the source: swap in what is new and good, refuse what is bad, note what is wrong.

        No exception passes: whatever the source holds, the model in service goes on. One look at a time, so that
        nothing is refused twice.
        """
        with self._looking:
            mark = content = None
            try:
                mark = self._source.in_service()
                if mark is None:
                    raise StorageError(f"{self._source} holds no model; publish one")
                if mark != self._mark:
                    content = self._source.read(mark)
            except Exception as error:
                if mark is not None and isinstance(error, ModelFileError):
                    self._refuse(mark, error)
                else:
                    self._note_absence(error)
                return
            if not self.health.source_up:
                log.info("%s is back", self._source)
                self.health = replace(self.health, source_up=True, problem=None, detail=None)
            if content is None:
                return
            try:
                loaded = self._build(content, f"the model of {self._source}")
                if self.current is not None and not self._allow_other_columns:
                    _require_same_columns(self.current, loaded)
            except Exception as error:
                self._refuse(mark, error)
                return
            self._mark = mark
            self._swap(loaded)

    def _watch(self) -> None:
        while not self._stopped.is_set():
            self._wait()
            if not self._stopped.is_set():
                self.look()

    def _wait(self) -> None:
        """Listen to the channel of a registry in Redis; without one, or where that fails, sleep until the next look."""
        end = time.monotonic() + self._poll_seconds
        try:
            backend = self._source.backend if isinstance(self._source, ModelRegistry) else None
            if self._listener is None and isinstance(backend, RedisBackend):
                self._listener = backend.listener()
            while self._listener and not self._stopped.is_set() and (left := end - time.monotonic()) > 0:
                if self._listener.get_message(timeout=min(left, _LISTEN_SECONDS)) is not None:
                    return
        except Exception:
            # The polling that follows reports what is wrong; a fresh subscription is made next time.
            self._drop_listener()
        self._stopped.wait(max(end - time.monotonic(), 0.0))

    def _drop_listener(self) -> None:
        if self._listener is not None:
            with contextlib.suppress(Exception):  # a broken connection must not end the watching
                self._listener.close()
            self._listener = None

    def _swap(self, loaded: LoadedModel) -> None:
        before = self.current
        self.current = loaded
        swaps = self.health.swaps + (before is not None)
        self.health = replace(self.health, source_up=True, problem=None, detail=None, swaps=swaps)
        log.info("serving model %s%s", loaded.version, f" in place of {before.version}" if before else "")
        if self._last_good is not None:
            try:
                write_atomically(self._last_good, loaded.content)
            except StorageError as error:
                log.error("model %s serves, but its copy was not kept: %s", loaded.version, error)

    def _refuse(self, mark: str, error: Exception) -> None:
        # The same content is not tried again until the source changes.
        self._mark = mark
        other_columns = isinstance(error, OtherColumnsError)
        reason = str(error) if isinstance(error, MBCTError) else f"{type(error).__name__} {error}"
        self.health = replace(
            self.health,
            source_up=True,
            problem="a new model was refused: " + ("it has other columns" if other_columns else "it cannot be served"),
            detail=f"a new model was refused: {reason}",
            refused=self.health.refused + 1,
        )
        log.error("%s; %s", self.health.detail, self._goes_on())

    def _note_absence(self, error: Exception) -> None:
        detail = str(error) if isinstance(error, MBCTError) else f"{self._source}: {type(error).__name__} {error}"
        if self.health.source_up:
            log.error("%s; %s", detail, self._goes_on())
        self.health = replace(self.health, source_up=False, problem="the source of models is away", detail=detail)

    def _goes_on(self) -> str:
        return f"model {self.current.version} keeps serving" if self.current else "there is no model to serve yet"

    def _serve_last_good(self, path: Path) -> None:
        try:
            self.current = self._build(read_bytes(path), f"the last good model {path}")
        except Exception as error:
            log.error("%s", error)
            return
        log.warning("serving the last good model %s from %s until its source is back", self.current.version, path)


class OtherColumnsError(ModelFileError):
    """A model needs columns that requests for the one in service do not have."""


def _require_same_columns(before: LoadedModel, after: LoadedModel) -> None:
    """Raise where a request that ``before`` takes would be refused by ``after``."""
    kinds = {feature.name: feature.kind for feature in before.bins}
    needed = [f"{feature.name!r} is new" for feature in after.bins if feature.name not in kinds]
    # A category takes any number, a number takes no text.
    narrowed = [each.name for each in after.bins if (each.kind, kinds.get(each.name)) == ("number", "category")]
    needed += [f"{name!r} takes numbers only" for name in narrowed]
    if before.classes != after.classes:
        needed.append(f"classes are {', '.join(after.classes or ('one',))}")
    if needed:
        raise OtherColumnsError(
            f"version {after.version} has other columns than {before.version}: {', '.join(needed)}; requests without "
            "them would fail: restart the service with it, or start it with --allow-other-columns"
        )
