"""Running ``mbct`` as a person does: through the installed entry point, in a pipe or on a pseudo-terminal."""

import os
import pty
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ENTRY_POINT = Path(sys.executable).parent / "mbct"


@dataclass(frozen=True)
class Outcome:
    """Exit code and what was printed; on a terminal both streams arrive as ``out``."""

    code: int
    out: str
    err: str


def mbct(*arguments: str | Path, cwd: Path, stdin: bytes = b"") -> Outcome:
    """Run in a pipe."""
    done = subprocess.run(
        [str(ENTRY_POINT), *map(str, arguments)], cwd=cwd, input=stdin, capture_output=True, timeout=300, check=False
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


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
