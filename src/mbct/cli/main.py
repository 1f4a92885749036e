"""The entry point: run a command, turn every failure into one line and an exit code.

==== =======================================================
code meaning
==== =======================================================
0    done; the answer is yes
1    done; the answer is no (a gate failed)
2    wrong use, or data, files or packages that will not do
130  interrupted; nothing is left behind
==== =======================================================
"""

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import click

from mbct import __version__
from mbct.cli.shell import LazyGroup, PipeClosedError
from mbct.errors import MBCTError
from mbct.text import escape_control

WRONG_USE = 2
INTERRUPTED = 130
PIPE_CLOSED = 141

_NAMES = """
    fit predict evaluate monitor certify compare advise report rules export cells refresh publish rollback loop history
    serve simulate reproduce
"""
COMMANDS = {name: f"mbct.cli.{name}" for name in _NAMES.split()} | {"rollback": "mbct.cli.publish"}
"""The module of each command, in the order of the help."""


@click.group(
    cls=LazyGroup,
    modules=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 the answer is no (a failed gate), 2 wrong use or unusable data.",
)
@click.version_option(__version__, prog_name="mbct")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def app() -> None:
    """Calibrate predicted probabilities by the features that explain their bias.

    Data may be Parquet, CSV (gzip too), a glob in quotes, - for standard input, or
    duckdb:///file.db?table=name; --sql runs any query on it.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``mbct``; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            code = app.main(args=given, prog_name="mbct", standalone_mode=False)
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):  # which of them depends on click's version
        return _fail("interrupted", INTERRUPTED)
    except (PipeClosedError, BrokenPipeError):
        # The reader went away; without this Python would complain once more when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except Exception as error:
        if "--debug" in given:
            raise
        return _fail(_message(error), WRONG_USE)
    return code if isinstance(code, int) else 0


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as one line, without the place in the code where it arose."""
    click.echo(f"warning: {' '.join(str(message).split())}", err=True)


def _message(error: Exception) -> str:
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else "mbct"
        return f"{error.format_message().rstrip('.')}; see '{path} --help'"
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, MBCTError):
        return str(error)
    if isinstance(error, MemoryError):
        return "not enough memory; take fewer rows or columns with --sql"
    return f"unexpected {type(error).__name__}: {error}; run again with --debug to see where"


def _fail(message: str, code: int) -> int:
    line = escape_control(" ".join(message.split()))
    click.echo(f"mbct: {line}", err=True)
    return code
