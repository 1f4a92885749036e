"""Where a store lives: a local folder, or any folder that fsspec can reach.

The store's safety rests on two properties: a file is written atomically, and of several writers that create the same
file exactly one succeeds. A remote file system that lacks the second is refused when it is opened.
"""

import contextlib
import os
import tempfile
import uuid
from pathlib import Path, PurePosixPath
from typing import Any

from mbct.errors import StorageError
from mbct.files import sync_folder, write_atomically
from mbct.lazy import optional


def open_storage(url: str | os.PathLike[str]) -> "Storage":
    """The folder at ``url``: a path, or an fsspec URL such as ``s3://bucket/store``."""
    text = os.fspath(url)
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    return RemoteStorage(text) if "://" in text else LocalStorage(Path(text))


class LocalStorage:
    """A folder of this machine, or one mounted into it; its files are named by relative paths."""

    def __init__(self, root: Path):
        self.root = root
        self.url = str(root)

    def read(self, name: str) -> bytes:
        """Content of a file; FileNotFoundError where there is none."""
        return (self.root / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically: beside the target, then renamed."""
        self._folder_of(name)
        write_atomically(self.root / name, content)

    def create(self, name: str, content: bytes) -> bool:
        """Write a file that must not exist, False where it does: linked, the one step that fails if it is there."""
        folder = self._folder_of(name)
        descriptor, part = tempfile.mkstemp(prefix=".", suffix=".part", dir=folder)
        try:
            with os.fdopen(descriptor, "wb") as handle:
                handle.write(content)
                handle.flush()
                os.fsync(handle.fileno())
            Path(part).chmod(0o644)
            os.link(part, self.root / name)
        except FileExistsError:
            return False
        except OSError as error:
            raise StorageError(f"cannot write {self.root / name}: {error.strerror}") from error
        finally:
            Path(part).unlink(missing_ok=True)
        sync_folder(folder)
        return True

    def names(self, folder: str) -> list[str]:
        """Names of the files in a folder and below it, sorted; files in the making are left out."""
        found = (path for path in (self.root / folder).rglob("*") if not path.name.startswith(".") and path.is_file())
        return sorted(path.relative_to(self.root).as_posix() for path in found)

    def remove(self, name: str) -> None:
        """Delete a file if it is there."""
        (self.root / name).unlink(missing_ok=True)

    def written_at(self, name: str) -> float | None:
        """When a file was written, by the storage's own clock; None where there is none or times are not kept."""
        try:
            return (self.root / name).stat().st_mtime
        except FileNotFoundError:
            return None

    def _folder_of(self, name: str) -> Path:
        folder = (self.root / name).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot make the folder {folder}: {error.strerror}") from error
        return folder


class RemoteStorage:
    """A folder in an object store or on another file system; one upload is one atomic write there."""

    def __init__(self, url: str):
        fsspec = optional(f"{url} needs fsspec: pip install 'mbct[store]'", "fsspec")
        self.url = url
        try:
            self.files: Any
            self.files, self.root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise StorageError(f"cannot open {url}: {error}") from error
        self._refuse_overwriting()

    def read(self, name: str) -> bytes:
        """Content of a file."""
        return bytes(self.files.cat_file(self._path(name)))

    def write(self, name: str, content: bytes) -> None:
        """Upload a file."""
        self.files.pipe_file(self._path(name), content)

    def create(self, name: str, content: bytes) -> bool:
        """Upload a file unless it exists, by the file system's own conditional write."""
        try:
            self.files.pipe_file(self._path(name), content, mode="create")
        except FileExistsError:
            return False
        return True

    def names(self, folder: str) -> list[str]:
        """Names of the files in a folder and below it."""
        self.files.invalidate_cache()
        try:
            found = self.files.find(self._path(folder))
        except FileNotFoundError:
            return []
        relative = (PurePosixPath(path).relative_to(PurePosixPath(self.root)) for path in found)
        return sorted(path.as_posix() for path in relative if not path.name.startswith("."))

    def remove(self, name: str) -> None:
        """Delete a file if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self.files.rm_file(self._path(name))

    def written_at(self, name: str) -> float | None:
        """When a file was written."""
        try:
            return float(self.files.modified(self._path(name)).timestamp())
        except (NotImplementedError, FileNotFoundError, AttributeError):
            return None  # fsspec's answer of a file system that keeps no times is NotImplementedError

    def _refuse_overwriting(self) -> None:
        """Try on a file of our own whether creating a file that exists fails; some file systems overwrite it."""
        probe = f".probe-{uuid.uuid4().hex}"
        try:
            created = self.create(probe, b"first")
        except PermissionError:
            return  # a reader needs no exclusive create
        try:
            if not created or self.create(probe, b"second") or self.read(probe) != b"first":
                raise StorageError(
                    f"{self.url} overwrites files that exist, so that writers could lose each other's batches: "
                    "use a file system with exclusive create (pipe_file with mode='create'), without a cache in front"
                )
        finally:
            self.remove(probe)

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"


Storage = LocalStorage | RemoteStorage


def clock(storage: Storage) -> float | None:
    """The present time by the clock that stamps the storage's files; None where it keeps no times."""
    name = f".clock-{uuid.uuid4().hex}"
    storage.write(name, b"")
    try:
        return storage.written_at(name)
    finally:
        storage.remove(name)
