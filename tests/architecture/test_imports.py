"""Importing the package loads nothing that is not asked for."""

import subprocess
import sys

import pytest

OPTIONAL = [
    "pandas",
    "polars",
    "pyarrow",
    "duckdb",
    "pyspark",
    "click",
    "rich",
    "altair",
    "matplotlib",
    "msgspec",
    "uvicorn",
]
OPTIONAL += ["redis", "onnx", "lightgbm", "fsspec", "torch"]


def modules_after(statement):
    code = f"{statement}; import sys; print(' '.join(sorted({{m.split('.')[0] for m in sys.modules}})))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_the_package_loads_next_to_nothing():
    loaded = modules_after("import mbct")
    assert not loaded & {*OPTIONAL, "sklearn", "numba", "numpy", "narwhals"}


@pytest.mark.parametrize(
    "statement",
    [
        "import mbct; mbct.MBCTCalibrator()",
        "import mbct.metrics; mbct.metrics.ece([0, 1], [0.2, 0.7])",
        "import mbct; mbct.compare",
        "from mbct.calibrators.registry import available, calibrator_class; [calibrator_class(n) for n in available()]",
    ],
)
def test_no_optional_package_is_loaded_until_it_is_needed(statement):
    loaded_by_scikit_learn = modules_after("import sklearn.model_selection")
    assert not modules_after(statement) & set(OPTIONAL) - loaded_by_scikit_learn


def test_the_core_needs_no_scikit_learn():
    statement = (
        "import mbct.model.ensemble, mbct.training.trainer, mbct.training.paper.trainer, mbct.export, mbct.serving"
    )
    assert "sklearn" not in modules_after(statement)
