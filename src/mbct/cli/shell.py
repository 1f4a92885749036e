"""What all commands share: help with examples, lazily loaded modules, notes on standard error, JSON."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from mbct.files import write_atomically
from mbct.text import escape_control, table_lines


class Command(click.Command):
    """A command whose help ends with examples that can be pasted."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)
        self.params.append(
            click.Option(["--debug"], is_flag=True, expose_value=False, help="Show the traceback of an error.")
        )

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples as they are, without wrapping."""
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{' ' * formatter.current_indent}{example}\n")
        super().format_epilog(ctx, formatter)


class OneOf(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click alone
    """A name out of a list that is looked up when it is needed; an unknown one is answered with the nearest."""

    def __init__(self, name: str, choices: Callable[[], Iterable[str]]):
        self.name = name
        self.choices = choices

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name, if it is one of them."""
        choices = list(self.choices())
        if value not in choices:
            self.fail(f"unknown {self.name} {value!r}; {nearest(value, choices)}", param, ctx)
        return str(value)

    def shell_complete(  # the signature is click's
        self, _: click.Context, __: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Names that begin as what was typed."""
        return [CompletionItem(name) for name in self.choices() if name.startswith(incomplete)]


def nearest(name: str, choices: Sequence[str]) -> str:
    """What a person who typed ``name`` may have meant.

    >>> nearest("isotnic", ["isotonic", "platt"]), nearest("magic", ["isotonic", "platt"])
    ("did you mean 'isotonic'?", 'there are isotonic, platt')
    """
    close = get_close_matches(name, choices, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(choices)}"


class PipeClosedError(Exception):
    """Whoever read standard output has stopped; click's own answer to that differs between its versions."""


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is asked for.

    ``modules`` names, for each command, the module that defines a function of the same name.
    """

    def __init__(self, *args: Any, modules: dict[str, str] | None = None, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.modules = modules or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which they are met: fit first."""
        return [*self.modules, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now."""
        if cmd_name not in self.modules:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(import_module(self.modules[cmd_name]), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments begin with; an unknown one is answered with the nearest."""
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            ctx.fail(f"unknown command {args[0]!r}; {nearest(args[0], known)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise PipeClosedError from error


def command(*, examples: Sequence[str]) -> Callable[[Callable[..., Any]], Command]:
    """Turn a function into a :class:`Command` with examples in its help."""
    return click.command(cls=Command, examples=examples, context_settings={"max_content_width": 100})


def note(message: str) -> None:
    """Tell the person, on standard error."""
    click.echo(escape_control(message), err=True)


def print_json(document: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2))


def answer(text: object, document: Any, *, as_json: bool) -> None:
    """What was found on standard output: ``text`` for people, or the ``document`` for machines."""
    if as_json:
        print_json(document)
    else:
        click.echo(str(text))


def write_output(path: str | None, content: bytes, remark: str = "") -> None:
    """Write the file that ``-o`` names, if it names one, and say so."""
    if path is not None:
        write_atomically(path, content)
        note(f"wrote {path}{remark}")


def print_table(names: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[str] = ()) -> None:
    """A table that fits the terminal; in a pipe, plain columns. Columns are set to the right unless in ``left``."""
    rows = [[escape_control(text) for text in row] for row in rows]
    if not sys.stdout.isatty():
        click.echo("\n".join(table_lines(names, rows, left)))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in names:
        table.add_column(name, justify="left" if name in left else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)
