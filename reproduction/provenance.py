"""What code a result was made by: its digest goes into the result's key, so that no older result is taken for it."""

import ast
import hashlib
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_PACKAGE = Path(str(getattr(find_spec("mbct"), "origin", None))).parent
_EXPERIMENTS = Path(__file__).parent
_HERE = "reproduction."
"""Modules below it are followed; the package itself only hands over what is called by name."""
_SHOWING = frozenset({"cli", "report", "plots", "serving"})
"""Folders of the package that no measurement imports: they only show results or answer requests."""


def commit() -> str:
    """The commit of this clone, with ``+`` where code differs from it; "unknown" outside a clone."""
    try:
        head = _git("rev-parse", "--short=10", "HEAD")
        return f"{head}+" if _git("status", "--porcelain", "--", "src", "reproduction") else head
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=_EXPERIMENTS.parent).stdout.strip()


def code_digest(module: str) -> str:
    """Digest of the measuring ``module`` with all it imports here, and of the package below.

    Comments, white space and docstrings do not count.
    """
    return hashlib.sha256(
        "".join(sorted([_package_digest(), *map(_file_digest, imported(module))])).encode()
    ).hexdigest()


@cache
def imported(module: str) -> frozenset[Path]:
    """Files of the experiments that ``module`` imports, directly or not, and its own."""
    found: set[Path] = set()
    waiting = [_file_of(module)]
    while waiting:
        path = waiting.pop()
        if path is None or path in found:
            continue
        found.add(path)
        waiting += [_file_of(name) for name in _imports(path)]
    return frozenset(found)


def _imports(path: Path) -> list[str]:
    """Modules of the experiments that a file imports; ``from a import b`` may mean the module a or a.b."""
    names = []
    for node in ast.walk(_parsed(path)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return [name for name in names if name.startswith(_HERE)]


def _file_of(module: str) -> Path | None:
    """The file of a module; None where the name is not one."""
    base = _EXPERIMENTS.joinpath(*module.split(".")[1:])
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


@cache
def _package_digest() -> str:
    """Digest of the package but for what only shows results."""
    files = [path for path in _PACKAGE.rglob("*.py") if path.relative_to(_PACKAGE).parts[0] not in _SHOWING]
    return hashlib.sha256("".join(map(_file_digest, sorted(files))).encode()).hexdigest()


@cache
def _file_digest(path: Path) -> str:
    root = _EXPERIMENTS if path.is_relative_to(_EXPERIMENTS) else _PACKAGE
    content = f"{path.relative_to(root).as_posix()}\n{ast.dump(_without_docstrings(_parsed(path)))}"
    return hashlib.sha256(content.encode()).hexdigest()


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return tree
