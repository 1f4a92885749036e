"""The page where a person types a row: one file, nothing loaded from elsewhere."""

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files


@cache
def page() -> tuple[bytes, tuple[tuple[bytes, bytes], ...]]:
    """The page and the headers that let a browser run its own script and style alone."""
    text = files("mbct.serving").joinpath("page.html").read_text(encoding="utf-8")
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


def _digest(text: str, tag: str) -> str:
    found = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    content = found.group(1) if found else ""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
