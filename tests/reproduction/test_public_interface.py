"""The experiments stand on the public interface alone: what the reference documents, and two tools of the house."""

import ast
import importlib
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REFERENCE = runpy.run_path(str(ROOT / "scripts" / "write_reference.py"), run_name="reference")
FOLDER = ROOT / "reproduction"
TOOLS = {("mbct.files", "write_atomically"), ("mbct.progress", "progress")}
"""How the package writes files and shows progress: no part of the method."""


def foreign_imports(source: str) -> list[tuple[str, str]]:
    """(module, name) of everything imported from the package outside the experiments."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names if alias.name.split(".")[0] == "mbct"]
        elif isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "mbct"):
            found += [(node.module or ".", alias.name) for alias in node.names]
    return found


def is_public(module: str, name: str) -> bool:
    if (module, name) in TOOLS:
        return True
    return module in REFERENCE["MODULES"] and name in REFERENCE["public_names"](importlib.import_module(module))


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: str(path.relative_to(FOLDER)))
def test_only_public_names_are_imported(path: Path):
    hidden = [pair for pair in foreign_imports(path.read_text(encoding="utf-8")) if not is_public(*pair)]
    assert not hidden


@pytest.mark.parametrize(
    ("source", "public"),
    [
        ("from mbct import MBCTCalibrator", True),
        ("from mbct.store import CellStore", True),
        ("from mbct.errors import DataError", True),
        ("from mbct.store.cell_store import CellStore", False),
        ("from mbct.training.cells import Cells", False),
        ("import mbct.training.fold_mean", False),
        ("from mbct.metrics import _PUBLIC", False),
        ("from ..training import boosting", False),
    ],
)
def test_the_check_tells_public_from_hidden(source, public):
    assert all(is_public(*pair) for pair in foreign_imports(source)) == public
    assert foreign_imports(source)
