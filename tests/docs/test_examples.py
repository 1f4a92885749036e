"""Every example in README.md and docs/ runs, from the top of its page to the bottom, in one empty folder.

Python blocks of a page share a namespace. Console blocks run line by line in a shell whose ``mbct`` is the installed
one; output that is shown must match, with … for what may differ. A block is left out if the line above it reads
``<!-- not run: reason -->``, and where a package is absent if it reads ``<!-- needs package: how to install it -->``.
"""

import doctest
import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

import pytest

from mbct.errors import MBCTWarning
from terminal import Outcome, mbct

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").rglob("*.md") if "reference" not in p.parts)]
LANGUAGES = ("python", "console")
_BLOCK = re.compile(
    r"(?:<!-- (?:not run: (?P<reason>[^\n]+?)|needs (?P<package>\w+): (?P<install>[^\n]+?)) -->\n+)?"
    r"^ *```(?P<language>\w+)[^\n]*\n(?P<code>.*?)^ *```",
    re.M | re.S,
)
"""Blocks of a tab are indented."""
_SHELL = re.compile(r"[|<>&;`*$]")
"""Signs that only a shell understands."""
_QUOTED = re.compile(r"'[^']*'|\"[^\"`$\\]*\"")
"""Words in quotes, in which a shell sees no signs."""
_OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    code: str
    reason: str | None
    package: str | None = None
    install: str | None = None

    @property
    def can_run(self) -> bool:
        return self.package is None or find_spec(self.package) is not None


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page,
            text.count("\n", 0, found.start("code")) + 1,
            found["language"],
            dedent(found["code"]),
            found["reason"],
            found["package"],
            found["install"],
        )
        for found in _BLOCK.finditer(text)
        if found["language"] in LANGUAGES
    ]


WITH_EXAMPLES = [page for page in PAGES if any(block.reason is None for block in blocks_of(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    namespace: dict[str, object] = {"__name__": "__main__"}
    shown = [block for block in blocks_of(page) if block.reason is None]
    for block in shown:
        if block.language == "console":
            _run_console(block, tmp_path)
        elif block.can_run:
            with _own_warnings(block):
                exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), namespace)
    if absent := [f"{block.package} is not installed: {block.install}" for block in shown if not block.can_run]:
        pytest.skip("; ".join(absent) + "; the other examples ran")


@contextmanager
def _own_warnings(block: Block) -> Iterator[None]:
    """Where another package stands in the middle, only our warnings are errors."""
    with warnings.catch_warnings():
        if block.package is not None:
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", MBCTWarning)
        yield


def _run_console(block: Block, folder: Path) -> None:
    for command, expected in _commands(block):
        where = f"{block.page.name}, line {block.line}: {command}"
        assert re.search(r"\bmbct\b|^python -m reproduction\b", command), f"{where}: mark what is not ours as not run"
        done = _run(command, folder)
        assert done.code == 0, f"{where}\n{done.out}{done.err}"
        printed = done.err + done.out
        if expected and not doctest.OutputChecker().check_output(expected.replace("…", "..."), printed, _OPTIONS):
            pytest.fail(f"{where}\nthe page shows\n{expected}\nbut it printed\n{printed}")


def _run(command: str, folder: Path) -> Outcome:
    """An ``mbct`` command in this process, which spares its imports; what needs a shell in a shell."""
    own, consequence = _parted(command)
    words = shlex.split(own, comments=True)
    if words[0] != "mbct" or _signs_of_a_shell(own):
        return _run_in_shell(command, folder)
    done = mbct(*words[1:], cwd=folder)
    if not consequence:
        return done
    then = _run_in_shell(f"(exit {done.code}) {consequence}", folder)
    return Outcome(then.code, done.out + then.out, done.err + then.err)


def _parted(command: str) -> tuple[str, str]:
    """What comes before the first ``||`` or ``&&`` outside quotes, and the rest with that sign."""
    found = re.search(r"\|\||&&", _without_quotes(command))
    return (command[: found.start()], command[found.start() :]) if found else (command, "")


def _signs_of_a_shell(command: str) -> bool:
    return _SHELL.search(_without_quotes(command)) is not None


def _without_quotes(command: str) -> str:
    """The command, as long as it was, with blanks for words in quotes."""
    return _QUOTED.sub(lambda quoted: " " * len(quoted[0]), command)


def _run_in_shell(command: str, folder: Path) -> Outcome:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    python_path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT))))
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": python_path, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=600,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def _commands(block: Block) -> list[tuple[str, str]]:
    """Commands, with the output shown beneath each."""
    code = block.code.replace("\\\n", " ")
    parts = re.split(r"^\$ ", code, flags=re.M)
    assert not parts[0].strip(), f"{block.page.name}, line {block.line}: a console block starts with $"
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts[1:])]


def test_what_is_not_run_is_said_and_little():
    left_out = [block for page in PAGES for block in blocks_of(page) if block.reason is not None]
    run = [block for page in PAGES for block in blocks_of(page) if block.reason is None]
    print(f"\n{len(run)} examples run, {len(left_out)} do not:")  # noqa: T201 - to be read with pytest -s
    for block in left_out:
        print(f"  {block.page.relative_to(ROOT)}, line {block.line}: {block.reason}")  # noqa: T201 - likewise
    assert len(left_out) <= 0.15 * len(run)
    assert all(block.reason for block in left_out)


def test_the_runner_finds_blocks(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(
        "a\n\n```python\nx = 1\n```\n\n<!-- not run: why -->\n```console\n$ mbct a \\\n  b\nout\n```\n"
        "=== tab\n\n    <!-- not run: tab -->\n    ```python\n    if x:\n        y\n    ```\n"
    )
    page.write_text(page.read_text() + "\n<!-- needs nopackage: pip install it -->\n```python\nimport nopackage\n```\n")
    python, console, tab, other = blocks_of(page)
    assert (other.package, other.install, other.can_run) == ("nopackage", "pip install it", False)
    assert (tab.code, tab.reason) == ("if x:\n    y\n", "tab")
    assert (python.line, python.code, python.reason) == (4, "x = 1\n", None)
    assert (console.reason, _commands(console)) == ("why", [("mbct a    b", "out\n")])


def test_the_runner_gives_to_a_shell_what_needs_one(tmp_path: Path):
    assert not _signs_of_a_shell("mbct evaluate x.csv --fail-if \"ece > 0.03\" --score 'p_*'")
    assert all(_signs_of_a_shell(f"mbct rules m.json {sign}") for sign in ("> a", "| head", "p_*", '"$HOME"', "& ls"))
    assert _parted('mbct a --fail-if "x || y" || echo no') == ('mbct a --fail-if "x || y" ', "|| echo no")
    assert _run("mbct rules absent.json || echo alarm", tmp_path).out == "alarm\n"
    assert _run("mbct --version && echo fine", tmp_path).out.endswith("\nfine\n")
    assert _run("mbct rules absent.json && echo fine", tmp_path) == _run("mbct rules absent.json", tmp_path)
    assert _run("mbct --version | tr a-z A-Z", tmp_path).out.startswith("MBCT, VERSION ")
