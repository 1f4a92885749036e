"""Text for terminals: made safe where it came from outside, and tables of it."""

import re
from collections.abc import Container, Sequence

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def escape_control(text: str) -> str:
    r"""Show control characters instead of obeying them: no value can begin a line of its own or move the cursor.

    >>> print(escape_control("a\nb\x1b[31m"))
    a\u000ab\u001b[31m
    """
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def table_lines(names: Sequence[str], rows: Sequence[Sequence[str]], left: Container[str] = ()) -> list[str]:
    """A table as lines of equal columns, set to the right unless their name is in ``left``.

    >>> table_lines(["site", "rows"], [("a", "1,000"), ("other", "7")], left=["site"])
    ['site    rows', 'a      1,000', 'other      7']
    """
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    sides = [str.ljust if name in left else str.rjust for name in names]
    return [
        "  ".join(side(text, w) for side, text, w in zip(sides, row, widths, strict=True)).rstrip()
        for row in (names, *rows)
    ]
