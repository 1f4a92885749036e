"""Parts: the pieces an experiment is computed in. A finished part is a JSON file and is not computed again."""

import hashlib
import json
import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from mbct.errors import StorageError
from mbct.files import write_atomically

_PACKAGES = ("mbct", "numpy", "scipy", "scikit-learn", "numba", "lightgbm", "polars")
_FORMAT = 1
"""Raised when a part's content changes its meaning: older files are then computed anew."""


@dataclass(frozen=True)
class Part:
    """A computation that depends on nothing but its ``parameters`` (plain JSON) and the code.

    ``timed`` parts hold seconds and live apart, since no two runs agree on them.
    """

    experiment: str
    name: str
    parameters: dict[str, Any]
    compute: Callable[[], dict[str, Any]]
    timed: bool = False

    @property
    def key(self) -> str:
        """Digest of everything the result depends on."""
        content = {
            "format": _FORMAT,
            "experiment": self.experiment,
            "name": self.name,
            "parameters": self.parameters,
            "versions": versions(),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def path(self, out: Path) -> Path:
        """Where the result is kept."""
        return out / ("timings" if self.timed else "data") / self.experiment / f"{self.name}.json"


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a result may depend on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def kept(part: Part, out: Path) -> dict[str, Any] | None:
    """The finished result of ``part`` under ``out``; None where there is none with the same parameters."""
    path = part.path(out)
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None
    if not isinstance(content, dict) or content.get("key") != part.key:
        return None
    result: dict[str, Any] = content["result"]
    return result


def finish(part: Part, out: Path) -> dict[str, Any]:
    """The result of ``part``: the kept one, or computed now and kept."""
    found = kept(part, out)
    if found is not None:
        return found
    result = part.compute()
    content = {
        "experiment": part.experiment,
        "name": part.name,
        "key": part.key,
        "parameters": part.parameters,
        "versions": versions(),
        "result": result,
    }
    text = json.dumps(content, indent=1, sort_keys=True, allow_nan=False)
    write(part.path(out), text + "\n")
    # What a reader of the file would get, so that a fresh run and a resumed one draw the same figures.
    reread: dict[str, Any] = json.loads(text)["result"]
    return reread


def write(path: Path, text: str) -> None:
    """Write a text file whole, with the folders above it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot create the folder {path.parent}: {error.strerror}; choose another --out") from error
    write_atomically(path, text.encode())
