"""Running ``mbct`` as a person does: in this process with files as streams, or installed, on a pseudo-terminal.

A process of its own costs a second or two for imports alone, so only what needs one (terminals, signals, pipes that
close) starts one.
"""

import contextlib
import io
import os
import pty
import select
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from mbct.cli.main import main

ENTRY_POINT = Path(sys.executable).parent / "mbct"


@dataclass(frozen=True)
class Outcome:
    """Exit code and what was printed; on a terminal both streams arrive as ``out``."""

    code: int
    out: str
    err: str


def mbct(*arguments: str | Path, cwd: Path, stdin: bytes = b"") -> Outcome:
    """Run in this process, its streams files; what a process of its own would print and return."""
    with _streams(stdin) as (out, err), contextlib.chdir(cwd), warnings.catch_warnings():
        warnings.simplefilter("default")
        with mock.patch.object(sys, "argv", ["mbct", *map(str, arguments)]):
            try:
                code = main()
            except Exception:  # --debug lets it through, and Python would print it
                traceback.print_exc()
                code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        out.seek(0)
        err.seek(0)
        return Outcome(code, out.read().decode(), err.read().decode())


@contextlib.contextmanager
def _streams(stdin: bytes) -> Iterator[tuple[io.BufferedRandom, io.BufferedRandom]]:
    """Standard input with the bytes given, and files that take the place of the output streams."""
    with contextlib.ExitStack() as stack:
        given, out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(stdin)
        given.seek(0)
        texts = [io.TextIOWrapper(file, encoding="utf-8", write_through=True) for file in (given, out, err)]
        for name, text in zip(("stdin", "stdout", "stderr"), texts, strict=True):
            stack.enter_context(mock.patch.object(sys, name, text))
        yield out, err
        for text in texts:
            text.detach()


def mbct_on_terminal(*arguments: str | Path, cwd: Path, columns: int = 120) -> Outcome:
    """Run on a pseudo-terminal that is ``columns`` wide."""
    return on_terminal([str(ENTRY_POINT), *map(str, arguments)], cwd=cwd, columns=columns)


def on_terminal(command: list[str], *, cwd: Path, columns: int = 120) -> Outcome:
    """Run any command on a pseudo-terminal."""
    master, slave = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color"}
    process = subprocess.Popen(command, cwd=cwd, stdin=slave, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    printed = _drain(master, process)
    os.close(master)
    return Outcome(process.wait(timeout=10), printed.decode(), "")


def _drain(master: int, process: "subprocess.Popen[bytes]", timeout: float = 300.0) -> bytes:
    printed, end = b"", time.monotonic() + timeout
    while time.monotonic() < end:
        ready, _, _ = select.select([master], [], [], 0.1)
        if not ready:
            if process.poll() is not None:
                return printed
            continue
        try:
            block = os.read(master, 65536)
        except OSError:  # Linux says so when the other end is closed
            return printed
        if not block:
            return printed
        printed += block
    process.kill()
    raise TimeoutError(f"still running after {timeout:g} s: {printed.decode()[-500:]}")
