import os
import pty
import subprocess
import sys
import textwrap

import pytest

from mbct.progress import progress, track

COUNT = textwrap.dedent(
    """
    import time
    from mbct.progress import progress, track
    for _ in track([1, 2, 3], "outer"):
        with progress("inner") as advance:
            advance(1)
        time.sleep(0.15)
    """
)


def test_it_is_silent_in_a_pipe():
    done = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, check=True)
    assert done.stdout == done.stderr == b""


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are a matter of Unix")
def test_it_shows_one_bar_on_a_terminal():
    reader, terminal = pty.openpty()
    done = subprocess.run([sys.executable, "-c", COUNT], stdout=subprocess.PIPE, stderr=terminal, check=True)
    os.close(terminal)
    shown = b""
    while True:
        try:
            part = os.read(reader, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(reader)
    assert b"outer" in shown
    assert b"inner" not in shown
    assert b" 33 %" in shown
    assert b"left" in shown
    assert done.stdout == b""


def test_items_pass_through_in_order_and_errors_come_out():
    assert list(track("abc", "letters")) == ["a", "b", "c"]
    with pytest.raises(ZeroDivisionError), progress("failing", 3, show=True) as advance:
        advance(1 // 0)
    with progress("again", 1, show=True) as advance:
        advance(1)


def test_without_rich_it_is_silent(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with progress("quiet", 2, show=True) as advance:
        advance(2)
    assert capsys.readouterr().err == ""
