import os
from pathlib import Path

import pytest

from mbct.errors import StorageError
from mbct.store.storage import LocalPlace, RemotePlace, open_place


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path):
    return open_place(tmp_path / "place" if request.param == "local" else f"memory://{tmp_path.name}/place")


def test_files_are_written_listed_and_removed(place) -> None:
    assert place.names("a") == []
    place.write("a/b/one", b"1")
    place.write("a/two", b"2")
    assert place.names("a") == ["a/b/one", "a/two"]
    assert place.read("a/b/one") == b"1"
    assert 0.0 <= place.age("a/two") < 60.0
    assert place.age("a/none") == 0.0
    place.remove("a/two")
    place.remove("a/two")
    assert place.names("a") == ["a/b/one"]
    with pytest.raises(FileNotFoundError):
        place.read("a/two")


def test_a_file_is_created_only_once(place) -> None:
    assert place.create("x/one", b"first")
    assert not place.create("x/one", b"second")
    assert place.read("x/one") == b"first"
    assert place.names("x") == ["x/one"]


def test_files_in_the_making_are_not_listed(tmp_path: Path) -> None:
    place = LocalPlace(tmp_path)
    place.write("a/one", b"1")
    (tmp_path / "a" / ".one.part").write_bytes(b"")
    assert place.names("a") == ["a/one"]


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="cannot make the folder"):
        LocalPlace(tmp_path).create("a/one", b"1")


def test_a_file_where_a_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(StorageError, match=f"cannot make the folder {tmp_path / 'a'}"):
        LocalPlace(tmp_path).write("a/one", b"1")


def test_an_unknown_protocol_is_named() -> None:
    with pytest.raises(StorageError, match="cannot open nonsense://x"):
        RemotePlace("nonsense://x")
