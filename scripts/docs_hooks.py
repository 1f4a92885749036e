"""Hooks of the documentation's build: roles of docstrings become plain names."""

import re

_ROLE = re.compile(r":(?:func|class|meth|mod|attr|data):<code>~?(?:[\w.]+\.)?(\w+)</code>")


def on_page_content(html: str, **_: object) -> str:
    """Replace what a role leaves in the page, for example ``:func:`mbct.compare```, by the name itself."""
    return _ROLE.sub(r"<code>\1</code>", html)
