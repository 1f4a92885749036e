from pathlib import Path

import pytest

from mbct.errors import StorageError
from mbct.store.document_log import DocumentLog
from mbct.store.storage import LocalStorage


def _log(folder: Path, kept: int | None = 3) -> DocumentLog:
    return DocumentLog(LocalStorage(folder), "log", {"names": []}, kept)


def _add(log: DocumentLog, name: str) -> None:
    log.change(lambda body: None if name in body["names"] else {"names": [*body["names"], name]})


def test_documents_follow_each_other(tmp_path: Path) -> None:
    log = _log(tmp_path)
    assert log.newest() == (0, {"names": []})
    for name in "abcde":
        _add(log, name)
    assert log.newest() == (5, {"names": list("abcde")})
    assert log.numbers() == [3, 4, 5]
    assert _log(tmp_path, kept=None).newest()[0] == 5


def test_of_two_writers_of_one_number_one_succeeds(tmp_path: Path) -> None:
    log = _log(tmp_path)
    assert log.append(1, {"names": ["a"]})
    assert not log.append(1, {"names": ["b"]})
    assert log.read(1) == {"names": ["a"]}


def test_a_writer_that_slept_while_its_number_was_tidied_away_still_commits(tmp_path: Path) -> None:
    """It would otherwise write a document that is not the newest, and its change would be lost without a word."""
    sleeper, other = _log(tmp_path), _log(tmp_path)
    _add(other, "first")
    overtaken = []

    def change(body: dict[str, list[str]]) -> dict[str, list[str]] | None:
        if not overtaken:
            overtaken.append(True)
            for i in range(6):
                _add(other, f"meanwhile {i}")
        return None if "sleeper" in body["names"] else {"names": [*body["names"], "sleeper"]}

    sleeper.change(change)
    names = other.newest()[1]["names"]
    assert names == ["first", *(f"meanwhile {i}" for i in range(6)), "sleeper"]


def test_a_change_that_never_takes_hold_ends_with_an_error(tmp_path: Path) -> None:
    log = _log(tmp_path, kept=1)
    with pytest.raises(StorageError, match="too many at once"):
        log.change(lambda body: body)
