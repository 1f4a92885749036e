"""Write docs/reference from the code itself; ``--check`` says whether the pages are up to date."""

import argparse
import inspect
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from mbct.cli.main import app
from mbct.cli.shell import Command

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
MODULES = (
    "mbct",
    "mbct.metrics",
    "mbct.calibrators",
    "mbct.data",
    "mbct.store",
    "mbct.export",
    "mbct.plots",
    "mbct.report",
    "mbct.serving",
    "mbct.simulation",
    "mbct.errors",
)
"""What users import from; ``__all__`` says which names are public, else every class and function defined there."""
WIDTH = 80


def public_names(module: Any) -> list[str]:
    """Names of a module that are documented."""
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if not name.startswith("__")]
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def api_reference() -> str:
    """Every public name with its signature and docstring."""
    parts = ["# Python reference", "Written by `scripts/write_reference.py` from the docstrings."]
    for name in MODULES:
        module = import_module(name)
        parts += [f"## {name}", _prose(inspect.getdoc(module) or "")]
        for public in public_names(module):
            parts += _entry(public, getattr(module, public), f"{name}.{public}")
    return "\n\n".join(part for part in parts if part) + "\n"


def cli_reference() -> str:
    """The help of every command, as it is printed."""
    parts = ["# Command line reference", "Written by `scripts/write_reference.py` from `mbct … --help`."]
    root = click.Context(app, info_name="mbct", max_content_width=WIDTH, terminal_width=WIDTH)
    parts += ["## mbct", _block("text", app.get_help(root))]
    for path, command, context in _commands(app, root):
        parts += [f"## {path}", _block("text", command.get_help(context))]
    return "\n\n".join(parts) + "\n"


def _commands(group: click.Group, context: click.Context) -> list[tuple[str, click.Command, click.Context]]:
    found = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            continue
        below = click.Context(command, info_name=name, parent=context, max_content_width=WIDTH, terminal_width=WIDTH)
        found.append((below.command_path, command, below))
        if isinstance(command, click.Group):
            found += _commands(command, below)
        elif not isinstance(command, Command):
            raise TypeError(f"{below.command_path} has no examples: define it with mbct.cli.shell.command")
    return found


def _entry(name: str, value: Any, path: str) -> list[str]:
    documented = inspect.isclass(value) or callable(value)
    text = inspect.getdoc(value) if documented else ""
    if documented and not text:
        raise ValueError(f"{path} has no docstring")
    parts = [f"### {name}", _block("text", _signature(path, value)), _prose(text or "")]
    if inspect.isclass(value) and not issubclass(value, Exception):
        parts += [
            f"- `{method}{_arguments(function)}`: {_first_line(function)}"
            for method, function in inspect.getmembers(value, inspect.isfunction)
            if not method.startswith("_") and str(function.__module__).startswith("mbct") and inspect.getdoc(function)
        ]
        methods = [part for part in parts if part.startswith("- ")]
        parts = [part for part in parts if not part.startswith("- ")] + (["\n".join(methods)] if methods else [])
    return parts


def _signature(path: str, value: Any) -> str:
    if not callable(value) or (inspect.isclass(value) and issubclass(value, Exception)):
        return path
    text = f"{path}{_arguments(value)}"
    if len(text) <= WIDTH:
        return text
    inner = [str(parameter) for parameter in inspect.signature(value).parameters.values()]
    stars = [i for i, p in enumerate(inspect.signature(value).parameters.values()) if p.kind is p.KEYWORD_ONLY]
    if stars and not any(p.startswith("*") for p in inner):
        inner.insert(stars[0], "*")
    return f"{path}(\n" + "".join(f"    {_clean(each)},\n" for each in inner) + ")"


def _arguments(value: Any) -> str:
    try:
        return _clean(str(inspect.signature(value)))
    except (TypeError, ValueError):
        return "(…)"


def _clean(text: str) -> str:
    """Shorter names of types: what matters is the last word."""
    while "numpy.ndarray[" in text:
        text = _without_brackets(text, "numpy.ndarray", "ndarray")
    text = re.sub(r"\b(?:typing|collections\.abc|numpy|mbct(?:\.\w+)*?)\.(?=[A-Z])", "", text)
    return re.sub(r"<(?:object|function) .*?>", "…", text)


def _without_brackets(text: str, name: str, short: str) -> str:
    """The first ``name[…]`` replaced, whatever its brackets hold: numpy writes its types anew in every version."""
    start = text.index(f"{name}[")
    end, depth = start + len(name), 0
    while True:
        depth += {"[": 1, "]": -1}.get(text[end], 0)
        end += 1
        if depth == 0:
            return text[:start] + short + text[end:]


def _first_line(value: Any) -> str:
    return _markup((inspect.getdoc(value) or "").splitlines()[0])


def _prose(text: str) -> str:
    """The first paragraph as text, the rest as it stands in the source."""
    first, _, rest = text.partition("\n\n")
    if first.startswith("==="):
        return _block("text", text)
    return _markup(first) + (f"\n\n{_block('text', rest.rstrip())}" if rest.strip() else "")


def _markup(text: str) -> str:
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)
    return text.replace("``", "`").replace("<", "&lt;") if "`<" not in text else text.replace("``", "`")


def _block(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def main() -> int:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is out of date")
    check = parser.parse_args().check
    stale = False
    for name, content in (("cli.md", cli_reference()), ("api.md", api_reference())):
        page = FOLDER / name
        if not check:
            page.write_text(content, encoding="utf-8")
        elif not page.exists() or page.read_text(encoding="utf-8") != content:
            stale = True
            sys.stderr.write(f"docs/reference/{name} is out of date: run make reference\n")
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
