"""Feature names as identifiers of other languages."""

import re
from collections.abc import Iterable

_RESERVED = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while""".split()  # noqa: SIM905 - plainer than a list of quoted words
)
"""Keywords of C99, the only target whose identifiers can meet one."""


def identifiers(names: Iterable[str]) -> list[str]:
    """A distinct identifier of ASCII letters, digits and underscores for each name.

    >>> identifiers(["age", "number 0", "number_0", "2nd", "prix €", "int"])
    ['age', 'number_0', 'number_0_2', 'x_2nd', 'prix', 'x_int']
    """
    taken: set[str] = set()
    found = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "x"
        if plain[0].isdigit() or plain in _RESERVED:
            plain = f"x_{plain}"
        unique, number = plain, 2
        while unique in taken:
            unique, number = f"{plain}_{number}", number + 1
        taken.add(unique)
        found.append(unique)
    return found
