"""The last line of a page of figures: the version and the commit of the code that they were measured with."""

import subprocess
from pathlib import Path

import mbct


def commit() -> str:
    """The commit of this clone, with ``+`` behind it where files of the package differ from it."""
    changed = "+" if _git("status", "--porcelain", "--", ":/src", ":/reproduction") else ""
    return _git("rev-parse", "--short=10", "HEAD") + changed


def made_with() -> str:
    """The line."""
    return f"Made with MBCT {mbct.__version__}, commit {commit()}."


def write_page(path: Path, text: str) -> None:
    """Write a page of figures and the line below it."""
    path.write_text(f"{text.rstrip()}\n\n{made_with()}\n", encoding="utf-8")


def _git(*arguments: str) -> str:
    found = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    return found.stdout.strip()
