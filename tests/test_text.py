"""Nothing from outside moves the cursor or begins a line."""

import pytest

from mbct.cli.main import main
from mbct.text import escape_control


def test_control_characters_are_shown():
    hostile = "a\n2024 ERROR forged\x1b]0;title\x07\x9b31m\u202eback\r"
    shown = escape_control(hostile)
    assert shown == "a\\u000a2024 ERROR forged\\u001b]0;title\\u0007\\u009b31m\\u202eback\\u000d"
    assert escape_control("Grüße, 日本 — ok") == "Grüße, 日本 — ok"


@pytest.mark.parametrize("name", ["\x1b[2Jmodel.json", "a\nmbct: all is well"])
def test_an_error_of_the_command_line_is_one_line_without_escapes(name, capsys):
    assert main(["rules", name]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "\x1b" not in err
