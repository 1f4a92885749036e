"""Pieces of HTML: everything that came from data is escaped here."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template

MOST_RATIO = 100


@dataclass(frozen=True)
class Section:
    """A chapter of the page: anchor, heading, one sentence that says how to read it, and its body."""

    anchor: str
    title: str
    lead: str
    body: str
    folded: bool = False
    """Whether it opens on a click only: what most readers need not see."""

    def html(self) -> str:
        """The chapter as HTML; the lead is plain text."""
        heading = f'<h2 id="{self.anchor}-title">{text(self.title)}</h2>'
        body = f'<p class="lead">{text(self.lead)}</p>{self.body}'
        if self.folded:
            body = f'<details class="chapter"><summary>{heading}</summary>{body}</details>'
        else:
            body = heading + body
        return f'<section id="{self.anchor}" aria-labelledby="{self.anchor}-title">{body}</section>'


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, whether it holds numbers, and what the heading means.

    ``alone`` is the heading where its neighbours are not beside it: in a card, on a phone.
    """

    title: str
    number: bool = True
    hint: str = ""
    alone: str = ""


def text(value: object) -> str:
    """Any value as text that HTML cannot mistake for markup."""
    return escape(str(value), quote=True)


def number(value: float, digits: int = 4) -> str:
    """A number for people: significant digits, thousands apart, a dash where there is none.

    >>> number(0.123456), number(12345.6), number(float("nan")), number(0.000012345)
    ('0.1235', '12,346', '–', '1.234e-05')
    """
    if not math.isfinite(value):
        return "∞" if math.isinf(value) and value > 0 else "–"
    if value < 0:
        return f"−{number(-value, digits)}"
    if value == 0:
        return "0"
    if value >= 1000:
        return f"{value:,.0f}"
    shown = f"{value:.{digits}g}"
    return shown if "e" in shown or abs(value) < 1e-4 else f"{float(shown):.{_decimals(float(shown), digits)}f}"


def _decimals(value: float, digits: int) -> int:
    return max(digits - 1 - math.floor(math.log10(abs(value))), 0) if abs(value) < 10**digits else 0


def change(before: float, after: float, digits: int = 4) -> str:
    """Two numbers to the same decimals.

    >>> change(0.0288, 0.004743, 3)
    '0.0288 → 0.0047'
    """
    largest = max((abs(v) for v in (before, after) if math.isfinite(v)), default=0.0)
    decimals = _decimals(largest, digits) if largest > 0 else 0
    shown = (f"{v:.{decimals}f}" if math.isfinite(v) else number(v) for v in (before, after))
    return " → ".join(shown)


def interval(ends: tuple[float, float], digits: int = 3) -> str:
    """Both ends of an interval, small; nothing where it is unknown."""
    if not all(map(math.isfinite, ends)):
        return ""
    low, high = same_decimals(ends, digits)
    return f'<small class="interval">{low} to {high}</small>'


def ratio(value: float) -> str:
    """A ratio of predicted to observed positives; what few positives make absurdly large or small is only bounded.

    >>> ratio(0.9512), ratio(8.3e18), ratio(0.0), ratio(float("nan"))
    ('0.951', '> 100', '< 0.01', '–')
    """
    if not value <= MOST_RATIO:
        return number(value) if math.isnan(value) else f"> {MOST_RATIO}"
    return number(value, 3) if value >= 1 / MOST_RATIO else f"< {1 / MOST_RATIO:g}"


def ratio_interval(ends: tuple[float, float]) -> str:
    """Both ends of a ratio's interval, small."""
    if any(map(math.isnan, ends)):
        return ""
    return f'<small class="interval">{" to ".join(map(ratio, ends))}</small>'


def same_decimals(values: Sequence[float], digits: int) -> list[str]:
    """Numbers as :func:`number` shows the one of the largest size, all to its decimals.

    >>> same_decimals((0.0000874, 0.00338), 3), same_decimals((-0.0131, -0.0092), 2)
    (['0.00009', '0.00338'], ['−0.013', '−0.009'])
    """
    largest = max(map(abs, values))
    if largest < 1e-4 or largest >= 1000:
        return [number(value, digits) for value in values]
    shown = (f"{value:.{_decimals(largest, digits)}f}" for value in values)
    return [each.replace("-", "−") if float(each) else each.lstrip("-") for each in shown]


def table(columns: Sequence[Column], lines: Iterable[Sequence[str]], *, name: str = "", label: str = "") -> str:
    """A table that scrolls sideways inside its frame, and on a phone is a list of cards; cells are HTML already."""
    kinds = [' class="number"' if column.number else "" for column in columns]
    hints = [f' title="{text(column.hint)}"' if column.hint else "" for column in columns]
    head = "".join(
        f'<th scope="col"{kind}{hint}>{text(column.title)}</th>'
        for column, kind, hint in zip(columns, kinds, hints, strict=True)
    )
    titles = [f' data-title="{text(column.alone or column.title)}"' for column in columns]
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}{title}>{cell}</td>" for cell, kind, title in zip(line, kinds, titles, strict=True))
        + "</tr>"
        for line in lines
    )
    named = f' id="{name}"' if name else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(label or "table")}">'
        f"<table{named}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def card(title: str, body: str, note: str = "") -> str:
    """A small chapter beside others: a heading, a line of plain text and HTML."""
    line = f'<p class="note">{text(note)}</p>' if note else ""
    return f'<article class="card"><h3>{text(title)}</h3>{line}{body}</article>'


def fill(values: dict[str, str]) -> str:
    """The page: the template with its placeholders filled."""
    return Template(asset("page.html")).substitute(values)


def asset(name: str) -> str:
    """A text file of the package."""
    return files("mbct.report").joinpath("assets", name).read_text(encoding="utf-8")
