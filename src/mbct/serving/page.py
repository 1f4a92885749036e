"""Pages for people: one to type a row on, one that shows the OpenAPI document; nothing is loaded from elsewhere."""

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files


@cache
def page(name: str) -> tuple[bytes, tuple[tuple[bytes, bytes], ...]]:
    """A page and the headers that let a browser run its own script and style alone."""
    text, first = (files("mbct.serving").joinpath(each).read_text("utf-8") for each in (name, "page.html"))
    text = text.replace("/* page.html */", _content(first, "style"))  # one look for both pages
    script, style = (_digest(text, tag) for tag in ("script", "style"))
    policy = (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = (
        (b"content-security-policy", policy.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
    )
    return text.encode(), headers


def _content(text: str, tag: str) -> str:
    found = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    return found.group(1) if found else ""


def _digest(text: str, tag: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(_content(text, tag).encode()).digest()).decode()
