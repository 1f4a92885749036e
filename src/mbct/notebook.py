"""HTML for notebooks: results as tables, without scripts and without styles of their own."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any


def html_facts(title: str, facts: Mapping[str, Any]) -> str:
    """A title and a table of names and values.

    >>> html_facts("Model", {"trees": 3})
    '<h4>Model</h4><table><tr><th style="text-align:left">trees</th><td style="text-align:left">3</td></tr></table>'
    """
    left = 'style="text-align:left"'
    rows = "".join(
        f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(str(value))}</td></tr>" for name, value in facts.items()
    )
    return f"<h4>{escape(title)}</h4><table>{rows}</table>"


def html_table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]], *notes: str) -> str:
    """A title, a table of texts and notes below it."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    above = f"<h4>{escape(title)}</h4>" if title else ""
    return f"{above}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"
