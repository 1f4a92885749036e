"""Chapters: what was excluded and why; the command, the model and the versions behind the page."""

import platform
from importlib.metadata import PackageNotFoundError, version

from mbct import __version__
from mbct.report.page import Column, Section, table, text
from mbct.report.scored import Exclusion, Scored

_PACKAGES = ("numpy", "scikit-learn", "numba", "narwhals", "altair", "vl-convert-python")


def exclusions_of(scored: Scored, more: list[Exclusion]) -> tuple[Exclusion, ...]:
    """What was left out of rows, segments and lists, and the columns that the model does not look at."""
    found = [*scored.exclusions, *more]
    segments = {field.name for field in scored.fields}
    used = {*map(str, scored.calibrator.feature_names_in_), *segments}
    unused = [name for name in scored.predictions.columns.names if name not in used]
    if unused:
        why = "in the data, but neither features of the model nor asked for as segments"
        found.append(Exclusion(f"columns {', '.join(map(repr, unused))}", f"{len(unused)}", why))
    return tuple(found)


def render_excluded(exclusions: tuple[Exclusion, ...]) -> Section:
    """A table, or a line that says that nothing is missing."""
    title = "What was left out, and why"
    if not exclusions:
        return Section("excluded", title, "Nothing: every row and every column took part.", "")
    columns = (Column("what", number=False), Column("how many"), Column("why", number=False))
    lines = [[text(each.what), text(each.amount), text(each.why)] for each in exclusions]
    lead = "Rows and columns that took no part, and lists that were cut short."
    return Section("excluded", title, lead, table(columns, lines, label="what was left out"), folded=True)


def render_origin(scored: Scored, command: str | None) -> Section:
    """Command, model and versions."""
    settings = {k: v for k, v in scored.calibrator.get_params(deep=False).items() if v is not None}
    facts = [("command", f"<code>{text(command)}</code>")] if command else []
    facts.append(("method", text(scored.calibrator.method)))
    facts.append(("settings", f"<code>{text(', '.join(f'{k}={v!r}' for k, v in settings.items()))}</code>"))
    if scored.model is not None:
        facts.append(("model", text(f"{getattr(scored.calibrator, 'form_', '')}; link {scored.model.link}")))
        facts.append(("features", text(", ".join(scored.model.bins.names))))
    facts.append(("versions", text(f"mbct {__version__}, Python {platform.python_version()}, {_versions()}")))
    body = '<dl class="facts-list">' + "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts) + "</dl>"
    return Section(
        "origin", "How this page was made", "The same model, data and versions give the same page.", body, folded=True
    )


def _versions() -> str:
    found = []
    for package in _PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
