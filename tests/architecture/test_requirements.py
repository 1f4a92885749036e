"""The lower bounds of pyproject.toml: one for each package, and met here."""

import tomllib
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BOUNDS: defaultdict[str, set[str]] = defaultdict(set)
for _line in (
    *PROJECT["dependencies"],
    *(line for extra in PROJECT["optional-dependencies"].values() for line in extra),
):
    BOUNDS[Requirement(_line).name].add(str(Requirement(_line).specifier))
del BOUNDS["mbct"]


@pytest.mark.parametrize("name", BOUNDS)
def test_a_package_has_one_bound_and_the_installed_one_meets_it(name: str):
    (bound,) = BOUNDS[name]
    assert bound.startswith(">=")
    try:
        installed = version(name)
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed: pip install {name}")
    assert Requirement(f"{name}{bound}").specifier.contains(installed, prereleases=True)


def test_columns_are_read_by_versions_that_work_together():
    """DuckDB before 2.0 reads no CSV as we ask it to, and narwhals 2.5 imports what it no longer has."""
    assert {name: BOUNDS[name] for name in ("duckdb", "narwhals", "polars")} == {
        "duckdb": {">=2.0"},
        "narwhals": {">=2.12"},
        "polars": {">=1.30"},
    }
