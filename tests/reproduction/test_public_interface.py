"""The experiments stand on the public interface alone: what the reference documents, and two tools of the house."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
API = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
MODULES = re.findall(r"^## (mbct\S*)$", API, re.MULTILINE)
"""What users import from, as the reference lists it."""
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
    if module not in MODULES:
        return False
    opened = importlib.import_module(module)
    public = getattr(opened, "__all__", None)
    if public is not None:
        return name in public
    return not name.startswith("_") and getattr(getattr(opened, name, None), "__module__", None) == module


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
        ("import mbct.training.default", False),
        ("from mbct.metrics import _PUBLIC", False),
        ("from ..training import boosting", False),
    ],
)
def test_the_check_tells_public_from_hidden(source, public):
    assert all(is_public(*pair) for pair in foreign_imports(source)) == public
    assert foreign_imports(source)
