"""Importing the package loads nothing that is not asked for."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

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


LAZY = ["mbct", "mbct.calibrators", "mbct.data", "mbct.metrics", "mbct.plots", "mbct.report", "mbct.serving"]


@pytest.mark.parametrize("package", LAZY)
def test_type_checkers_see_the_names_that_are_loaded_on_first_use(package):
    module = importlib.import_module(package)
    (typed,) = (
        node
        for node in ast.parse(inspect.getsource(module)).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = {alias.asname: node.module for node in typed.body for alias in node.names if alias.asname == alias.name}
    assert sorted(seen) == sorted(module.__all__)
    for name, source in seen.items():
        assert getattr(module, name) is getattr(importlib.import_module(source), name)
        assert name in dir(module)


@pytest.mark.parametrize("name", ["metrics", "plots", "errors", "calibrators", "data", "load_model", "load_ensemble"])
def test_what_users_need_is_reachable_after_one_import(name):
    done = subprocess.run([sys.executable, "-c", f"import mbct; mbct.{name}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


WRONG_USE = {
    'mbct.MBCTCalibrator(scroe="p")': 'Unexpected keyword argument "scroe" for "MBCTCalibrator"',
    "mbct.metrics.ece([0, 1], [0.2, 0.7], n_bin=3)": 'Unexpected keyword argument "n_bin" for "ece"',
    'mbct.calibrators.PlattCalibrator(smooth_targets="yes")': 'has incompatible type "str"; expected "bool"',
    "mbct.compare([0.2, 0.7], [0, 1]).bets": '"Comparison" has no attribute "bets"',
}
RIGHT_USE = 'mbct.MBCTCalibrator(score_column="p")'


@pytest.mark.slow
def test_a_misspelt_argument_is_an_error_for_the_type_checker_of_a_user(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("\n".join(["import mbct", RIGHT_USE, *WRONG_USE]) + "\n")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    # The cache of the type checker may name the folder of an earlier run.
    found = [line for line in done.stdout.splitlines() if f"{script.name}:" in line and ": error: " in line]
    lines = [int(line.split(f"{script.name}:")[1].split(":")[0]) for line in found]
    assert lines == list(range(3, 3 + len(WRONG_USE))), done.stdout + done.stderr
    for message, line in zip(WRONG_USE.values(), found, strict=True):
        assert message in line
