"""From a calibrator and labelled rows to the page."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from mbct.errors import ParameterError
from mbct.evaluation.diagnostics.strongest_rules import StrongestRules
from mbct.files import write_atomically
from mbct.report import charts
from mbct.report.page import Section, asset, fill, text
from mbct.report.paired import n_resamples, paired_estimates
from mbct.report.scored import Exclusion, Scored, score_rows
from mbct.report.sections import (
    certificate,
    classes,
    fields,
    growth,
    metrics,
    origin,
    reliability,
    rules,
    second_period,
    subgroups,
    timeline,
    verdict,
    views,
    worst,
)
from mbct.report.sections.verdict import Biased, Outcome

if TYPE_CHECKING:
    from mbct.training.folds import BlockSize

DEFAULT_TITLE = "Calibration report"


@dataclass(frozen=True)
class ReportSummary:
    """What a report says in short.

    Attributes
    ----------
    path, n_bytes : Path, int
        The page and its size.
    n_rows : int
        Rows that were evaluated.
    outcome : {"better", "mixed", "worse", "unsure", "identity", "suspicious"}
        The verdict in one word.
    verdict : str
        The verdict in one sentence.
    plain : tuple of str
        The verdict's figures in three plain sentences.
    log_loss_before, log_loss_after : float
        Mean log loss of the predictions and of the calibrated probabilities.
    log_loss_change_interval : tuple of float
        Confidence interval of after less before.
    biased_segments_before, biased_segments_after, n_segments : int
        Significantly biased segments before and after, and all segments.
    exclusions : tuple of Exclusion
        What was left out of the page, and why.
    """

    path: Path
    n_bytes: int
    n_rows: int
    outcome: Outcome
    verdict: str
    plain: tuple[str, ...]
    log_loss_before: float
    log_loss_after: float
    log_loss_change_interval: tuple[float, float]
    biased_segments_before: int
    biased_segments_after: int
    n_segments: int
    exclusions: tuple[Exclusion, ...]

    def __str__(self) -> str:
        return (
            "\n".join((self.verdict, *self.plain)) + f"\n{self.path}: {self.n_bytes / 1e6:.2f} MB, {self.n_rows:,} rows"
        )


class ReportOptions(TypedDict, total=False):
    """Keywords of :func:`write_report` and :func:`build_report`, none of which must be given."""

    score_column: str | int | None
    """Column to calibrate, where it is called otherwise than in the model."""
    sample_weight: Any
    """Weights, or the name of their column."""
    by: Sequence[str] | None
    """Columns whose values are segments; the model's features if not given."""
    time: Any
    """Dates, timestamps or whole numbers of the rows, or the name of their column: draws a chart through time, and
    intervals and p-values come from whole days."""
    groups: Any
    """Values, or the name of their column, of rows that belong together, such as patients: whole groups count."""
    block: "BlockSize"
    """Blocks of ``time``: "day" (the default), "week", "hour" or a number of equal stretches."""
    compare_with: tuple[str, Any] | None
    """A name and other rows, such as those of the month before, to be shown side by side."""
    title: str | None
    """Heading of the page."""
    command: str | None
    """What made the page, to be shown at its end."""


def write_report(
    calibrator_or_path: Any, X: Any, y: Any, path: str | os.PathLike[str], **options: Unpack[ReportOptions]
) -> ReportSummary:
    """Write one HTML file that shows what a calibrator does to labelled rows, best to rows it was not fitted on.

    The file needs no network and is written atomically; equal input gives equal bytes.

    Parameters
    ----------
    calibrator_or_path : Calibrator or path
        A fitted calibrator, or a model file.
    X, y : frame or array, and str or array
        Rows with the columns that the calibrator was fitted on, and labels, or the name of their column.
    path : path
        File to write; its name must end in ``.html``.
    **options : as in :class:`ReportOptions`
        What the page holds.

    Returns
    -------
    summary : ReportSummary
        The verdict in a sentence and the figures that the page begins with.
    """
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise ParameterError(f"{path} must end in .html: a report is a page, which a browser prints as PDF")
    html, found = _report(calibrator_or_path, X, y, options)
    content = html.encode()
    write_atomically(path, content)
    return ReportSummary(Path(path), len(content), **found)


def build_report(calibrator_or_path: Any, X: Any, y: Any, **options: Unpack[ReportOptions]) -> str:
    """The page of :func:`write_report` as text.

    Parameters
    ----------
    calibrator_or_path, X, y, **options : as in :func:`write_report`
        Model, rows, labels and options.

    Returns
    -------
    str
        HTML with everything that it needs inside.
    """
    return _report(calibrator_or_path, X, y, options)[0]


def _report(calibrator_or_path: Any, X: Any, y: Any, asked: ReportOptions) -> tuple[str, dict[str, Any]]:
    """The page, and what its summary holds."""
    charts.altair()
    scored = _scored(calibrator_or_path, X, y, asked, asked.get("time"), asked.get("groups"))
    compared = fields.compute(scored)
    statistics = {**metrics.statistics(len(scored.classes)), **verdict.statistics(scored), **fields.statistics(scored)}
    estimates = paired_estimates(scored.before, scored.after, statistics, blocks=scored.blocks)
    biased = Biased(*fields.biased(compared))
    found = verdict.compute(scored, estimates, biased)
    order = [each.before.field for each in compared]
    plain = tuple(verdict.sentences(estimates.get("pcoc"), compared))
    listed = rules.compute(scored)
    exclusions = origin.exclusions_of(scored, _shortened(compared, listed))
    chapters = (
        worst.section(scored, order),
        None if scored.classes else timeline.section(scored),
        _beside(scored, y, asked),
        classes.section(scored),
        reliability.section(scored),
        fields.render(compared, estimates, scored.tested_by),
        metrics.render(estimates, n_resamples(scored.n_rows), in_blocks=scored.blocks is not None),
        certificate.section(scored),
        *(() if scored.classes else _of_one_probability(scored, listed, order)),
        origin.render_excluded(exclusions),
        origin.render_origin(scored, asked.get("command")),
    )
    head = verdict.render(found, plain, scored, estimates, biased)
    html = _page(asked.get("title") or DEFAULT_TITLE, head, [each for each in chapters if each is not None])
    log_loss = estimates["log_loss"]
    return html, {
        "n_rows": scored.n_rows,
        "outcome": found.outcome,
        "verdict": found.sentence,
        "plain": plain,
        "log_loss_before": log_loss.before,
        "log_loss_after": log_loss.after,
        "log_loss_change_interval": log_loss.change_interval,
        "biased_segments_before": biased.before,
        "biased_segments_after": biased.after,
        "n_segments": biased.total,
        "exclusions": exclusions,
    }


def _of_one_probability(scored: Scored, listed: StrongestRules | None, order: list[str]) -> list[Section]:
    return [
        rules.render(listed, scored),
        growth.section(scored),
        views.section(scored, order),
        subgroups.section(scored, order),
    ]


def _scored(
    calibrator_or_path: Any, X: Any, y: Any, asked: ReportOptions, time: Any = None, groups: Any = None
) -> Scored:
    score_column, sample_weight, by = asked.get("score_column"), asked.get("sample_weight"), asked.get("by")
    block = asked.get("block", "day")
    return score_rows(calibrator_or_path, X, y, score_column, sample_weight, by, time, groups, block)


def _beside(scored: Scored, y: Any, asked: ReportOptions) -> Section | None:
    """The chapter of another data set, where one was given."""
    beside = asked.get("compare_with")
    if beside is None:
        return None
    if not isinstance(y, str):
        raise ParameterError("compare_with needs y to be the name of the label's column, which both data sets have")
    name, rows = beside
    return second_period.section(scored, _scored(scored.calibrator, rows, y, asked), name)


def _shortened(compared: tuple[fields.FieldComparison, ...], listed: StrongestRules | None) -> list[Exclusion]:
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


def _page(title: str, head: str, chapters: list[Section]) -> str:
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
