"""From a calibrator and labelled rows to the page."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mbct.files import write_atomically
from mbct.report import charts
from mbct.report.page import Section, asset, fill, text
from mbct.report.paired import PairedEstimate, n_resamples, paired_estimates
from mbct.report.scored import Exclusion, Scored, score_rows
from mbct.report.sections import fields, growth, metrics, origin, reliability, rules, subgroups, verdict, views, worst
from mbct.report.sections.verdict import Biased, Outcome, Verdict

DEFAULT_TITLE = "Calibration report"


@dataclass(frozen=True)
class ReportSummary:
    """What a report says in short; ``outcome`` is better, worse, unsure or identity."""

    path: Path
    n_bytes: int
    n_rows: int
    outcome: Outcome
    verdict: str
    log_loss_before: float
    log_loss_after: float
    log_loss_change_interval: tuple[float, float]
    biased_segments_before: int
    biased_segments_after: int
    n_segments: int
    exclusions: tuple[Exclusion, ...]

    def __str__(self) -> str:
        return f"{self.verdict}\n{self.path}: {self.n_bytes / 1e6:.2f} MB, {self.n_rows:,} rows"


@dataclass(frozen=True)
class _Report:
    """The page and what its summary needs."""

    html: str
    scored: Scored
    verdict: Verdict
    biased: Biased
    log_loss: PairedEstimate
    exclusions: tuple[Exclusion, ...]


def write_report(
    calibrator_or_path: Any,
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    score_column: str | int | None = None,
    sample_weight: Any = None,
    title: str | None = None,
    command: str | None = None,
) -> ReportSummary:
    """Write one HTML file that shows what a calibrator does to labelled rows, best to rows it was not fitted on.

    ``calibrator_or_path`` is a fitted calibrator or a model file; ``y`` the labels or the name of their column, and
    ``sample_weight`` likewise. ``score_column`` names the column to calibrate where it is called otherwise than in the
    model. The file needs no network and is written atomically; equal input gives equal bytes.
    """
    report = _report(calibrator_or_path, X, y, score_column, sample_weight, title, command)
    content = report.html.encode()
    write_atomically(path, content)
    return ReportSummary(
        Path(path),
        len(content),
        report.scored.n_rows,
        report.verdict.outcome,
        report.verdict.sentence,
        report.log_loss.before,
        report.log_loss.after,
        report.log_loss.change_interval,
        report.biased.before,
        report.biased.after,
        report.biased.total,
        report.exclusions,
    )


def build_report(
    calibrator_or_path: Any,
    X: Any,
    y: Any,
    *,
    score_column: str | int | None = None,
    sample_weight: Any = None,
    title: str | None = None,
    command: str | None = None,
) -> str:
    """The page of :func:`write_report` as text."""
    return _report(calibrator_or_path, X, y, score_column, sample_weight, title, command).html


def _report(
    calibrator_or_path: Any,
    X: Any,
    y: Any,
    score_column: str | int | None,
    sample_weight: Any,
    title: str | None,
    command: str | None,
) -> _Report:
    charts.altair()
    scored = score_rows(calibrator_or_path, X, y, score_column, sample_weight)
    compared = fields.compute(scored)
    estimates = paired_estimates(scored.before, scored.after, {**metrics.statistics(), **fields.statistics(scored)})
    biased = Biased(*fields.biased(compared))
    found = verdict.compute(scored, estimates["log_loss"], biased)
    order = [each.before.field for each in compared]
    outline, listed = growth.compute(scored), rules.compute(scored)
    exclusions = origin.exclusions_of(scored, _shortened(compared, listed))
    chapters = (
        reliability.render(reliability.compute(scored)),
        fields.render(compared, estimates),
        worst.render(worst.compute(scored, order)),
        views.render(views.compute(scored, order)),
        subgroups.render(subgroups.compute(scored, order)),
        growth.render(outline, replayed=outline is not None and outline.loss == "log loss"),
        rules.render(listed),
        metrics.render(estimates, n_resamples(scored.n_rows)),
        origin.render_excluded(exclusions),
        origin.render_origin(scored, command),
    )
    head = verdict.render(found, scored, estimates, biased)
    html = _page(title or DEFAULT_TITLE, head, chapters)
    return _Report(html, scored, found, biased, estimates["log_loss"], exclusions)


def _shortened(compared: tuple[fields.FieldComparison, ...], listed: rules.RuleList | None) -> list[Exclusion]:
    """Lists that the page cuts short."""
    found = []
    for each in compared:
        more = each.before.n_values - len(each.before.segments) + 1
        if more > 1:
            why = f"beyond the {fields.MOST_VALUES} largest values, shown as one line; field errors count each of them"
            found.append(Exclusion(f"values of {each.before.field!r}", f"{more:,}", why))
    if listed is not None and listed.total > len(listed.rules):
        why = f"the {len(listed.rules):,} strongest are shown; the model file holds all"
        found.append(Exclusion("rules", f"{listed.total - len(listed.rules):,}", why))
    return found


def _page(title: str, head: str, chapters: tuple[Section, ...]) -> str:
    links = "".join(f'<li><a href="#{each.anchor}">{text(each.title)}</a></li>' for each in chapters)
    return fill(
        {
            "title": text(title),
            "style": asset("report.css"),
            "head": head,
            "links": links,
            "chapters": "\n".join(each.html() for each in chapters),
            "library": charts.library(),
            "script": asset("report.js"),
        }
    )
