"""The versions of a model, which of them is in service, and why; kept in the folder of a store or in Redis."""

import datetime
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Union

from mbct.errors import ModelFileError, StorageError
from mbct.model.ensemble import CalibrationEnsemble
from mbct.model.file import ensemble_of, read_bytes
from mbct.store.cell_store import CellStore
from mbct.store.document_log import DocumentLog
from mbct.store.storage import Storage, open_storage

if TYPE_CHECKING:
    from mbct.store.redis_backend import RedisBackend

VERSION_DIGITS = 16
_REDIS_SCHEMES = ("redis://", "rediss://", "unix://")
Backend = Union["FileBackend", "RedisBackend"]


@dataclass(frozen=True)
class ModelVersion:
    """One version in a registry.

    Attributes
    ----------
    version : str
        Beginning of the content's SHA-256.
    published : float
        Seconds since 1970.
    current : bool
        Whether it is in service.
    size : int
        Bytes of the model file.
    note : str
        The note given when it was published.
    """

    version: str
    published: float
    current: bool
    size: int
    note: str


class ModelRegistry:
    """Versions of one model and the one in service.

    A version is the beginning of its content's SHA-256, so content cannot change under its name, and publishing the
    same file twice is publishing it once.

    Parameters
    ----------
    where : CellStore, str, path, FileBackend or RedisBackend
        A store of cells or its folder or URL, or a Redis such as ``redis://user:password@host:6379/0``.
    name : str, default "default"
        Which model, if Redis holds several.
    """

    def __init__(self, where: "CellStore | str | os.PathLike[str] | Backend", name: str = "default") -> None:
        self.backend = _backend(where, name)

    def in_service(self) -> str | None:
        """The version in service, or None where nothing was published."""
        return self.backend.current()

    def read(self, version: str | None = None) -> bytes:
        """Content of a version, its checksum compared.

        Parameters
        ----------
        version : str or None, default=None
            None reads the one in service.

        Returns
        -------
        bytes
            The model file.
        """
        version = version or self.in_service()
        if version is None:
            raise StorageError(f"{self} holds no model yet; publish one")
        content = self.backend.content(version)
        if content is None:
            raise self._unknown(version)
        if version_of(content) != version:
            raise ModelFileError(
                f"version {version} of {self} is damaged: its content has checksum {version_of(content)}; "
                "publish it again"
            )
        return content

    def ensemble(self, version: str | None = None) -> CalibrationEnsemble:
        """The frozen ensemble of a version, which exports and scorers take.

        Parameters
        ----------
        version : str or None, default=None
            None reads the one in service.

        Returns
        -------
        CalibrationEnsemble
            Bins and trees.
        """
        return ensemble_of(self.read(version), f"version {version or self.in_service()} of {self}")

    def versions(self) -> list[ModelVersion]:
        """Every version, the newest first."""
        return self.backend.versions()

    def records(self) -> list[dict[str, Any]]:
        """What was put into service, oldest first; a store also keeps why."""
        return self.backend.records()

    def add(self, content: bytes, note: str = "") -> str:
        """Keep ``content``, a good model file, as a version out of service, with a ``note`` (in Redis)."""
        version = version_of(content)
        self.backend.add(version, content, ensemble_of(content, f"version {version}"), note)
        return version

    def publish(self, content: bytes, note: str = "") -> str:
        """Put a model file into service.

        Everything is written before the pointer moves, so a publication that dies half-way changes nothing.

        Parameters
        ----------
        content, note : bytes, str
            The model file, and a note kept with it, such as why it was published.

        Returns
        -------
        str
            Its version.
        """
        version = self.add(content, note)
        self.backend.put_into_service(version, note)
        return version

    def rollback(self, to: str | None = None, reason: str = "") -> str:
        """Put an older version into service again.

        Parameters
        ----------
        to : str or None, default=None
            The version; None takes the one before.
        reason : str, default=""
            Kept in a store's history.

        Returns
        -------
        str
            The version in service.
        """
        if to is not None:
            self.read(to)
        found = self.backend.step_back(to, reason)
        if found is None and to is not None:
            raise self._unknown(to)
        if found is None:
            raise StorageError(f"{self} has no earlier version: nothing to roll back to")
        return found

    def close(self) -> None:
        """Give connections back."""
        self.backend.close()

    def _unknown(self, version: str) -> StorageError:
        return StorageError(f"{self} holds no version {version!r}; it has {[v.version for v in self.versions()]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        return str(self.backend)


class FileBackend:
    """Versions as files of a store, and a log of decisions, the newest of which names the version in service."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._log = DocumentLog(storage, "records", {"in_service": None}, kept=None)

    def current(self) -> str | None:
        """The version in service."""
        return self.newest()[1]

    def newest(self) -> tuple[int, str | None]:
        """Number of the newest decision, and the version in service."""
        number, body = self._log.newest()
        return number, body["in_service"]

    def content(self, version: str) -> bytes | None:
        """Bytes of a version as they are stored; None where there are none."""
        try:
            return self._storage.read(_file(version))
        except (FileNotFoundError, ValueError):
            return None

    def versions(self) -> list[ModelVersion]:
        """Every version, the newest first."""
        current, notes = self.current(), {record["in_service"]: record.get("reason", "") for record in self.records()}
        found = []
        for name in self._storage.names("models"):
            version = name.removeprefix("models/").removesuffix(".json")
            written = self._storage.written_at(name) or 0.0
            size = len(self._storage.read(name))
            found.append(ModelVersion(version, written, version == current, size, notes.get(version, "")))
        return sorted(found, key=lambda one: (one.published, one.version), reverse=True)

    def add(self, version: str, content: bytes, model: CalibrationEnsemble, note: str) -> None:  # noqa: ARG002 - Redis publishes rules too
        """Keep a version; a damaged file is written again."""
        if not self._storage.create(_file(version), content) and self.content(version) != content:
            self._storage.write(_file(version), content)

    def put_into_service(self, version: str, note: str) -> None:
        """Record a promotion by hand."""
        number, previous = self.newest()
        self.decide(number, "promoted by hand", version, {"previous": previous, "reason": note})

    def step_back(self, to: str | None, reason: str) -> str | None:
        """Record a rollback to ``to``, or to the version before the current one; None where there is none."""
        number, previous = self.newest()
        target = to or self._before_the_current()
        if target is None:
            return None
        details = {"previous": previous, "reason": reason, "stepped_back": to is None}
        self.decide(number, "rolled back", target, details)
        return target

    def decide(self, after: int, decision: str, in_service: str | None, details: Mapping[str, Any]) -> int:
        """Write the decision that follows number ``after``; fails if another was written meanwhile."""
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        body = {**details, "decision": decision, "in_service": in_service, "at": at}
        if not self._log.append(after + 1, body):
            raise StorageError(
                f"another record was written to {self._storage.url} meanwhile: another model may be in service, "
                "run again"
            )
        return after + 1

    def records(self) -> list[dict[str, Any]]:
        """All decisions, oldest first."""
        return [{"number": number, **self._log.read(number)} for number in self._log.numbers()]

    def close(self) -> None:
        """Nothing is held open."""

    def _before_the_current(self) -> str | None:
        """The version to step back to: a rollback without a target takes back the promotion before it."""
        stack: list[str] = []
        for record in self.records():
            version = record["in_service"]
            if version is None or (stack and stack[-1] == version):
                continue
            if record.get("stepped_back") and version in stack:
                while stack[-1] != version:
                    stack.pop()
            else:
                stack.append(version)
        return stack[-2] if len(stack) > 1 else None

    def __str__(self) -> str:
        return self._storage.url


def version_of(content: bytes) -> str:
    """A content's version: the beginning of its SHA-256.

    >>> version_of(b"")
    'e3b0c44298fc1c14'
    """
    return hashlib.sha256(content).hexdigest()[:VERSION_DIGITS]


def publish(
    model: str | os.PathLike[str] | bytes,
    url: str,
    *,
    name: str = "default",
    keep: int = 20,
    note: str = "",
    rules: bool = True,
) -> str:
    """Publish a model file to Redis and put it into service; returns its version.

    Parameters
    ----------
    model : str, path or bytes
        The model file, or its content.
    url, name, keep, rules : as in :class:`~mbct.store.redis_backend.RedisBackend`
        Which Redis and which model in it, how many versions to keep, and whether to write rules for other clients.
    note : str, default=""
        Kept with the version.

    Returns
    -------
    version : str
        The version that is now in service.
    """
    from mbct.store.redis_backend import RedisBackend

    content = model if isinstance(model, bytes) else read_bytes(Path(model))
    with ModelRegistry(RedisBackend(url, name, keep=keep, rules=rules)) as registry:
        return registry.publish(content, note)


def _backend(where: "CellStore | str | os.PathLike[str] | Backend", name: str) -> Backend:
    if isinstance(where, CellStore):
        return FileBackend(where.storage)
    if not isinstance(where, str | os.PathLike):
        return where
    if not str(where).startswith(_REDIS_SCHEMES):
        return FileBackend(open_storage(where))
    from mbct.store.redis_backend import RedisBackend

    return RedisBackend(str(where), name)


def _file(version: str) -> str:
    if not version.isalnum():
        raise ValueError(f"{version!r} is no version")
    return f"models/{version}.json"
