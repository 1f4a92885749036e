"""What the workflows of .github run, for every Python that is at hand: ``nox -l`` lists it, ``nox`` runs the core.

Pythons that are not installed are left out with a note. uv makes the environments.
"""

import os
from pathlib import Path

import nox

nox.needs_version = ">=2024.10"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["core", "lowest"]
nox.options.error_on_missing_interpreters = False

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
EXTRAS = "cli,polars,store,plots,report,serve,redis,onnx,lightgbm"
"""All but Spark, which needs Java, and the demonstration."""
CORE = [
    "tests/model",
    "tests/calibrators/test_persistence.py",
    "tests/data/test_source.py",
    "tests/data/test_binning.py",
    "tests/store/test_cell_store.py",
    "tests/store/test_refresh.py",
    "tests/serving/test_app.py",
    "tests/serving/test_row.py",
    "tests/serving/test_batch.py",
    "tests/export/test_onnx.py",
    "tests/cli/test_fit.py",
    "tests/cli/test_predict.py",
    "tests/plots",
    "tests/report/test_build.py",
]
"""Tests that meet every dependency and need no other package for comparison."""

INTEGRATIONS = ["tests/test_mlflow.py", "tests/export/test_dbt.py", "tests/docs/test_examples.py"]
"""Tests of other tools; of the examples those of the guide on them."""


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Every test, with the newest versions."""
    session.install("-e", ".[all]", *_group("dev"))
    session.run("pytest", "-n", "auto", *session.posargs)


@nox.session(python=PYTHONS)
def core(session: nox.Session) -> None:
    """The core of the tests, with the newest versions."""
    session.install(f".[{EXTRAS}]", *_group("core"))
    _run_core(session)


@nox.session(python=["3.11"])
def lowest(session: nox.Session) -> None:
    """The core of the tests, with the lowest versions that pyproject.toml promises."""
    session.install("--resolution", "lowest-direct", f".[{EXTRAS}]", *_group("core"))
    _run_core(session)


@nox.session(python=["3.11"])
def integrations(session: nox.Session) -> None:
    """MLflow, dbt, Evidently, boosters and skorch: the tools themselves run what we hand them."""
    session.install(f".[{EXTRAS}]", *_group("core"), *_group("integrations"))
    chosen = ["-k", "not examples or in-other-tools", *INTEGRATIONS]
    session.run("python", "-m", "pytest", "-q", *chosen, env=_kernels(session))


@nox.session(python=["3.11"])
def checks(session: nox.Session) -> None:
    """Format, lint, types, layers and the documentation site."""
    session.install("-e", ".[all]", *_group("dev"))
    for command in (["ruff", "format", "--check", "."], ["ruff", "check", "."], ["mypy"], ["lint-imports"]):
        session.run(*command)
    session.run("mkdocs", "build", "--strict", "--quiet", env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session(python=["3.11"])
def dist(session: nox.Session) -> None:
    """Build sdist and wheel, and try them in fresh environments."""
    session.install("build", "twine", "uv")
    session.run("python", "scripts/check_dist.py", *session.posargs)


def _run_core(session: nox.Session) -> None:
    # Deprecations inside old versions of other packages are no fault of ours.
    chosen = session.posargs or CORE
    session.run("python", "-m", "pytest", "-q", "-W", "default::DeprecationWarning", *chosen, env=_kernels(session))


def _kernels(session: nox.Session) -> dict[str, str]:
    """Compiled kernels of each session in a folder of its own."""
    return {"NUMBA_CACHE_DIR": os.fspath(Path(session.virtualenv.location) / "kernels")}


def _group(name: str) -> list[str]:
    return nox.project.dependency_groups(nox.project.load_toml("pyproject.toml"), name)
