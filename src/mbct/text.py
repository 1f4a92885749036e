"""Text that came from outside, made safe for logs and terminals."""

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def escape_control(text: str) -> str:
    r"""Show control characters instead of obeying them: no value can begin a line of its own or move the cursor.

    >>> print(escape_control("a\nb\x1b[31m"))
    a\u000ab\u001b[31m
    """
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
