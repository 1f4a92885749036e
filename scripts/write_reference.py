"""Write docs/reference/cli.md from the commands themselves; ``--check`` says whether the page is up to date."""

import argparse
import sys
from pathlib import Path

import click

from mbct.cli.main import app
from mbct.cli.shell import Command

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "cli.md"
WIDTH = 80


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


def _block(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def main() -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is out of date")
    content = cli_reference()
    if not parser.parse_args().check:
        PAGE.write_text(content, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != content:
        sys.stderr.write("docs/reference/cli.md is out of date: run make reference\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
