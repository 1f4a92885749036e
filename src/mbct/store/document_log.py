"""A log of numbered documents: the newest is the truth, and of several writers of one number exactly one succeeds."""

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

from mbct.errors import ModelFileError, StorageError
from mbct.store.storage import Storage

_NAME = re.compile(r"(\d{10})\.json")
_MOST_ATTEMPTS = 200


class DocumentLog:
    """Numbered JSON documents in one folder, each with the digest of its content.

    ``kept`` newest numbers stay, None keeps all.
    """

    def __init__(self, storage: Storage, folder: str, empty: dict[str, Any], kept: int | None):
        self.storage = storage
        self.folder = folder
        self.empty = empty
        self.kept = kept

    def newest(self) -> tuple[int, dict[str, Any]]:
        """Number and content of the newest document; 0 and the empty one where there is none."""
        for _ in range(_MOST_ATTEMPTS):
            numbers = self.numbers()
            if not numbers:
                return 0, self.empty
            try:
                return numbers[-1], self.read(numbers[-1])
            except FileNotFoundError:
                continue  # writers have moved on and tidied up between the listing and the reading
        raise StorageError(f"{self.storage.url}/{self.folder} changes too fast to be read: try again")

    def numbers(self) -> list[int]:
        """Numbers of all documents, rising."""
        found = []
        for name in self.storage.names(self.folder):
            match = _NAME.fullmatch(name.removeprefix(self.folder + "/"))
            if match is None:
                raise ModelFileError(f"{self.storage.url}/{name} does not belong to the store: move it away")
            found.append(int(match[1]))
        return sorted(found)

    def read(self, number: int) -> dict[str, Any]:
        """Content of one document; damage is named."""
        name = self._name(number)
        content = self.storage.read(name)
        try:
            document = json.loads(content)
            body: dict[str, Any] = document["body"]
            intact = document["sha256"] == _digest(body)
        except (ValueError, KeyError, TypeError) as error:
            raise ModelFileError(f"{self.storage.url}/{name} is truncated or foreign ({error}): restore it") from error
        if not intact:
            raise ModelFileError(f"{self.storage.url}/{name} was changed after it was written: restore it")
        return body

    def append(self, number: int, body: dict[str, Any]) -> bool:
        """Write document ``number``; False where another writer was first."""
        content = json.dumps({"sha256": _digest(body), "body": body}, ensure_ascii=False, sort_keys=True)
        return self.storage.create(self._name(number), (content + "\n").encode())

    def change(self, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> dict[str, Any]:
        """Apply ``change`` to the newest document, however many others write meanwhile; returns the newest one.

        ``change`` makes the next document, or None of one that holds the change. It is asked again after writing: a
        number that was tidied away could be written anew by a writer that slept, and such a document is not the newest.
        """
        written = False
        for _ in range(_MOST_ATTEMPTS):
            number, body = self.newest()
            changed = change(body)
            if changed is None:
                if written and self.kept is not None:
                    for old in self.numbers():
                        if old <= number - self.kept:
                            self.storage.remove(self._name(old))
                return body
            written = self.append(number + 1, changed)
        raise StorageError(f"{self.storage.url}/{self.folder} is written by too many at once: try again")

    def _name(self, number: int) -> str:
        return f"{self.folder}/{number:010d}.json"


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, ensure_ascii=False, sort_keys=True).encode()).hexdigest()
