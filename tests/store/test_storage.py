import subprocess
import sys
from pathlib import Path

import pytest

from mbct.errors import StorageError
from mbct.store.storage import LocalStorage, RemoteStorage, clock, open_storage
from processes import without_privileges


@pytest.fixture(params=["local", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path):
    return open_storage(tmp_path / "storage" if request.param == "local" else f"memory://{tmp_path.name}/storage")


def test_files_are_written_listed_and_removed(storage) -> None:
    assert storage.names("a") == []
    storage.write("a/b/one", b"1")
    storage.write("a/two", b"2")
    assert storage.names("a") == ["a/b/one", "a/two"]
    assert storage.read("a/b/one") == b"1"
    written = storage.written_at("a/two")
    assert written is not None
    assert 0.0 <= clock(storage) - written < 60.0
    assert storage.written_at("a/none") is None
    storage.remove("a/two")
    storage.remove("a/two")
    assert storage.names("a") == ["a/b/one"]
    with pytest.raises(FileNotFoundError):
        storage.read("a/two")


def test_a_file_is_created_only_once(storage) -> None:
    assert storage.create("x/one", b"first")
    assert not storage.create("x/one", b"second")
    assert storage.read("x/one") == b"first"
    assert storage.names("x") == ["x/one"]


def test_files_in_the_making_are_not_listed(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.write("a/one", b"1")
    (tmp_path / "a" / ".one.part").write_bytes(b"")
    assert storage.names("a") == ["a/one"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    code = (
        "from pathlib import Path; from mbct.store.storage import LocalStorage; "
        f"LocalStorage(Path({str(tmp_path)!r})).create('a/one', b'1')"
    )
    command = [*without_privileges(), sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"StorageError: cannot make the folder {tmp_path / 'a'}" in done.stderr
    assert done.returncode == 1


def test_a_file_where_a_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(StorageError, match=f"cannot make the folder {tmp_path / 'a'}"):
        LocalStorage(tmp_path).write("a/one", b"1")


def test_an_unknown_protocol_is_named() -> None:
    with pytest.raises(StorageError, match="cannot open nonsense://x"):
        RemoteStorage("nonsense://x")


@pytest.mark.parametrize("url", ["simplecache::memory://{}/cached", "overwriting"])
def test_a_file_system_that_overwrites_is_refused(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if url == "overwriting":
        from fsspec.implementations.memory import MemoryFileSystem

        def overwrite(self, path, value, mode="overwrite", **kwargs):  # as fsspec 2024.10 did
            with self.open(path, "wb") as handle:
                handle.write(value)

        monkeypatch.setattr(MemoryFileSystem, "pipe_file", overwrite)
        url = "memory://{}/old"
    with pytest.raises(StorageError, match="overwrites files that exist"):
        open_storage(url.format(tmp_path.name))


def test_a_file_url_is_a_local_folder(tmp_path: Path) -> None:
    storage = open_storage(f"file://{tmp_path}/fresh/folder")
    storage.write("a/one", b"1")
    assert (tmp_path / "fresh" / "folder" / "a" / "one").read_bytes() == b"1"
