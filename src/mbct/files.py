"""Files that are written atomically."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from mbct.errors import StorageError


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write ``content`` beside ``path``, then rename: a reader sees the old file or the new one, never half."""
    with open_atomically(path, f" ({len(content):,} bytes)") as handle:
        handle.write(content)


@contextlib.contextmanager
def open_atomically(path: str | os.PathLike[str], size: str = "") -> Iterator[BinaryIO]:
    """A file to be written part by part, which replaces ``path`` when all is done; errors mention ``size``."""
    target = Path(path)
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except OSError as error:
        raise StorageError(f"cannot write {target}: {error.strerror}; choose a folder that exists") from error
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        part.chmod(0o644)
        part.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StorageError(
            f"cannot write {target}{size}: {error.strerror}; "
            "free some space or choose another folder; the file that was there is unchanged"
        ) from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Make a new name survive a loss of power, where the system allows it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
