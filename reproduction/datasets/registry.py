"""All data sets by name: how to find the file of each and how to read it."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from mbct.errors import DataError
from reproduction.datasets import avazu, cactrdc, further, in_time, porto_seguro
from reproduction.datasets.dataset import Dataset

_DIGEST_BYTES = 1 << 24


@dataclass(frozen=True)
class Loader:
    """Where a data set's file is (None if it is not there) and how it is read."""

    find: Callable[[Path], Path | None]
    read: Callable[[Path], Dataset]


LOADERS = {
    porto_seguro.NAME: Loader(porto_seguro.files, porto_seguro.load),
    avazu.NAME: Loader(avazu.files, avazu.load),
    cactrdc.NAME: Loader(cactrdc.files, cactrdc.load),
    "french-claims": Loader(further.claims_file, further.load_claims),
    "criteo": Loader(further.criteo_file, further.load_criteo),
    "flights": Loader(further.flights_file, further.load_flights),
    "flights-2001": Loader(in_time.departures_file, in_time.load_departures),
    "employment": Loader(in_time.employment_file, in_time.load_employment),
}


def present(data: Path) -> dict[str, str]:
    """Names of the data sets whose file is there, each with a digest of it."""
    found = {name: loader.find(data) for name, loader in LOADERS.items()}
    return {name: _digest(path) for name, path in found.items() if path is not None}


@lru_cache(maxsize=1)
def load(name: str, data: Path, n_rows: int | None = None, *, thin_whole: bool = True) -> Dataset:
    """A data set, thinned to ``n_rows`` if that is given; those that count as whole only if asked."""
    path = LOADERS[name].find(data)
    if path is None:
        raise DataError(f"the data set {name!r} is not in {data}; see docs/reproduction/README.md for its file name")
    dataset = LOADERS[name].read(path)
    return dataset if n_rows is None or (dataset.whole and not thin_whole) else dataset.thinned(n_rows)


@lru_cache(maxsize=32)
def _digest(path: Path) -> str:
    """Digest of a file's size and beginning; of the name alone for data that come with a package."""
    if not path.is_file():
        return path.name
    with path.open("rb") as handle:
        start = handle.read(_DIGEST_BYTES)
    return hashlib.sha256(f"{path.stat().st_size}".encode() + start).hexdigest()[:16]
