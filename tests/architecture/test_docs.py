"""Nothing public goes undocumented, and generated pages are those of today's code."""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mbct
import mbct.calibrators
import mbct.metrics
from mbct.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
WRITTEN = {p: p.read_text(encoding="utf-8") for p in (ROOT / "docs").rglob("*.md") if "reference" not in p.parts}
API = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
CLI = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
DESCRIBED = set(re.findall(r"^::: (\S+)$", API, re.MULTILINE))
"""Where the names that the Python reference describes are defined."""
MODULES = re.findall(r"^## (mbct\S*)$", API, re.MULTILINE)
INNER = {"mbct.model", "mbct.training"}
"""Packages that users need not import; the others are documented name by name."""
PUBLIC = [
    (module.__name__, name)
    for module in map(importlib.import_module, MODULES)
    for name in getattr(module, "__all__", [])
    if not name.startswith("__")
]


def test_the_reference_is_up_to_date():
    script = ROOT / "scripts" / "write_reference.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("module", "name"), PUBLIC)
def test_every_public_name_is_documented(module: str, name: str):
    value = getattr(importlib.import_module(module), name)
    if inspect.ismodule(value):
        assert value.__name__ in MODULES
        return
    assert not callable(value) or inspect.getdoc(value)
    if callable(value):
        assert f"{value.__module__}.{value.__qualname__}" in DESCRIBED
    else:
        assert any(path.endswith(f".{name}") for path in DESCRIBED)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command: str):
    assert f"\n## mbct {command}\n" in CLI
    pages = [page.name for page, text in WRITTEN.items() if re.search(rf"\bmbct {command}\b", text)]
    assert pages, f"no page of docs/ shows 'mbct {command}'"


@pytest.mark.parametrize("method", mbct.calibrators.available())
def test_every_method_is_explained_in_words(method: str):
    assert any(f"`{method}`" in text for text in WRITTEN.values()), f"no page of docs/ names the method `{method}`"


@pytest.mark.parametrize("metric", sorted(set(mbct.metrics.__all__) - {"evaluate"}))
def test_every_metric_is_explained_in_words(metric: str):
    assert any(re.search(rf"`(?:mbct\.metrics\.)?{metric}\b", text) for text in WRITTEN.values()), metric


def test_the_reference_covers_every_package_with_public_names():
    packages = [
        f"mbct.{folder.name}" for folder in (ROOT / "src" / "mbct").iterdir() if (folder / "__init__.py").exists()
    ]
    public = {name for name in packages if hasattr(importlib.import_module(name), "__all__")}
    assert public - INNER <= set(MODULES)


NAMED = re.compile(r"`((?:mbct|reproduction|benchmarks|tests)/[\w/]+(?:\.py)?)`")


@pytest.mark.parametrize("page", [*WRITTEN, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_every_file_that_a_page_names_is_there(page: Path):
    named = NAMED.findall(page.read_text(encoding="utf-8"))
    absent = [name for name in named if not any((folder / name).exists() for folder in (ROOT, ROOT / "src"))]
    assert not absent


@pytest.mark.parametrize("path", sorted(DESCRIBED))
def test_what_the_reference_describes_exists(path: str):
    module, _, name = path.rpartition(".")
    assert hasattr(importlib.import_module(module), name)


INSIDE = {"fit_map", "fit_data", "calibrate_columns", "encode_labels", "apply", "add"}
INSIDE |= {"read_parts", "write_parts", "change", "without_unfit"}
"""Methods that other modules of the package call, and users do not."""


def described_callables():
    """Functions and classes of the reference, and the public methods that these classes define themselves."""
    for path in sorted(DESCRIBED):
        module, _, name = path.rpartition(".")
        value = getattr(importlib.import_module(module), name)
        if inspect.isclass(value):
            yield path, value.__init__, value
            own = [n for n in vars(value) if not n.startswith(("_", "set_")) and n not in INSIDE]
            yield from ((f"{path}.{n}", getattr(value, n), getattr(value, n)) for n in own)
        elif callable(value):
            yield path, value, value


MOST_IN_A_SENTENCE = 2
"""So many parameters may be named in the sentence itself, in double backticks; more need entries of their own."""


def documented_by_entries(docstring: str) -> set[str]:
    """Names before ``: type`` (or ``: as in …``) in the sections of parameters and attributes."""
    sections = re.findall(r"^(?:Parameters|Attributes)\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", docstring, re.M | re.S)
    entries = re.findall(r"^(\S[^:\n]*) : \S", "\n".join(sections), re.M)
    return {name.strip(" *") for entry in entries for name in entry.split(",")}


def undocumented(parameters: list[str], docstring: str) -> list[str]:
    """Parameters without an entry; a few may be named in a sentence instead."""
    without_entry = [name for name in parameters if name not in documented_by_entries(docstring)]
    named = [name for name in without_entry if f"``{name}``" in docstring]
    return without_entry if len(without_entry) > MOST_IN_A_SENTENCE else sorted({*without_entry} - {*named})


def test_a_parameter_is_documented_by_an_entry_or_named_in_the_sentence():
    sentence = "Draw on ``ax``, a ``histogram`` below; None makes a new figure of any size."
    assert undocumented(["ax", "histogram"], sentence) == []
    assert undocumented(["ax", "size"], sentence) == ["size"]
    assert undocumented(["ax", "histogram", "size"], f"{sentence} ``size``") == ["ax", "histogram", "size"]
    entries = "Draw.\n\nParameters\n----------\nax, size : Axes, int\n    Where.\nn\n    No type."
    entries += "\n\nReturns\n-------\ny : int"
    assert undocumented(["ax", "size", "n", "y"], entries) == ["n", "y"]


@pytest.mark.parametrize(("called", "documented"), [pytest.param(c, d, id=p) for p, c, d in described_callables()])
def test_every_public_parameter_is_documented(called, documented):
    if called is object.__init__ or not callable(called) or inspect.isclass(called):
        return
    try:
        parameters = list(inspect.signature(called).parameters)
    except ValueError:
        return  # written in C
    own = [name for name in parameters if name not in ("self", "cls", "args", "kwargs") and not name.startswith("_")]
    assert not undocumented(own, inspect.getdoc(documented) or "")


@pytest.mark.parametrize(("called", "documented"), [pytest.param(c, d, id=p) for p, c, d in described_callables()])
def test_what_comes_back_is_documented_wherever_parameters_have_entries(called, documented):
    docstring = inspect.getdoc(documented) or ""
    if inspect.isclass(documented) or "Parameters\n---" not in docstring:
        return
    returned = inspect.signature(called).return_annotation
    if returned not in (None, inspect.Signature.empty) and "Self" not in str(returned):
        assert re.search(r"^(Returns|Yields)\n-+\n\S", docstring, re.M)
