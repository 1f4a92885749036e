"""Chapter: PCOC and field errors of every segment feature."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mbct.data.columns import is_number
from mbct.evaluation.diagnostics.field_bias import FieldBias, SegmentBias, field_bias_of_rows
from mbct.evaluation.diagnostics.subgroups import ratio_limits, ratio_ticks
from mbct.evaluation.metrics.rows import Rows
from mbct.report.charts import AFTER, BEFORE, CARD, MUTED, STATES, altair, data, figure, state_scale, state_shapes
from mbct.report.page import Column, Section, change, interval, number, table, text
from mbct.report.paired import PairedEstimate, Statistic
from mbct.report.scored import Scored
from mbct.stats.partition_error import field_error, relative_field_error

MOST_VALUES = 10
MOST_CHARTS = 6
_LINE = 30  # Height of a segment's line in pixels: two marks one above the other


@dataclass(frozen=True)
class FieldComparison:
    """One field before and after; the segments of both in the same order."""

    before: FieldBias
    after: FieldBias

    def pairs(self) -> list[tuple[SegmentBias, SegmentBias]]:
        """Each segment before and after."""
        return list(zip(self.before.segments, self.after.segments, strict=True))


def compute(scored: Scored) -> tuple[FieldComparison, ...]:
    """Every field, that of the largest Field-ECE before first."""
    if not scored.fields:
        return ()
    before, after = (
        field_bias_of_rows(rows, scored.fields, MOST_VALUES, 0.95, "holm") for rows in (scored.before, scored.after)
    )
    found = []
    by_field = {each.field: each for each in after}
    for field in before:
        now = by_field[field.field]
        same = {segment.segment: segment for segment in now.segments}
        names = _order(scored, field)
        was = {segment.segment: segment for segment in field.segments}
        found.append(
            FieldComparison(
                replace(field, segments=tuple(was[name] for name in names)),
                replace(now, segments=tuple(same[name] for name in names)),
            )
        )
    return tuple(found)


def _order(scored: Scored, field: FieldBias) -> list[str]:
    """Names of segments: numbers by value, others by rising PCOC."""
    names = [segment.segment for segment in field.segments]
    if not is_number(scored.predictions.columns.column(field.field)):
        return names
    labels = next(each.labels for each in scored.fields if each.name == field.field)
    position = {label: i for i, label in enumerate(labels)}
    return sorted(names, key=lambda name: position.get(name, len(labels)))


def biased(fields: tuple[FieldComparison, ...]) -> tuple[int, int, int]:
    """Segments significantly biased before, after, and all of them."""
    before = [segment for field in fields for segment in field.before.segments]
    after = [segment for field in fields for segment in field.after.segments]
    return sum(s.sure for s in before), sum(s.sure for s in after), len(before)


def statistics(scored: Scored) -> dict[str, Statistic]:
    """Field-ECE and Field-RCE of every field, to be resampled."""
    found: dict[str, Statistic] = {}
    for i, field in enumerate(scored.fields):
        found[f"ece {field.name}"] = partial(_field_ece, i, len(field))
        found[f"rce {field.name}"] = partial(_field_rce, i, len(field))
    return found


def _field_ece(field: int, n_values: int, rows: Rows) -> float:
    return field_error(rows.values(field, n_values))


def _field_rce(field: int, n_values: int, rows: Rows) -> float:
    return relative_field_error(rows.values(field, n_values)).all_values


def render(fields: tuple[FieldComparison, ...], estimates: Mapping[str, PairedEstimate]) -> Section:
    """A table of field errors, then a chart a field."""
    was, now, total = biased(fields)
    lead = (
        "Predicted over observed positives (PCOC) of each value: 1 is right, below 1 predictions are too low. Lines "
        f"are 95 % intervals; a filled mark is a significant bias after Holm's correction over {total:,} segments "
        f"({was:,} before, {now:,} after)."
    )
    if not fields:
        nothing = "The data has no column besides the score that could tell segments apart."
        return Section("fields", "Bias by segment", nothing, "")
    charts = "".join(
        f'<article class="card"><h3>{text(each.before.field)}</h3>'
        f'<p class="note">Field-ECE {change(each.before.error, each.after.error, 3)}</p>'
        f"{_figure(i, each)}</article>"
        for i, each in enumerate(fields[:MOST_CHARTS])
    )
    key = (
        '<p class="key"><span class="mark before filled"></span>before <span class="mark after filled"></span>after '
        '<span class="mark hollow"></span>hollow: not significant</p>'
    )
    more = len(fields) - MOST_CHARTS
    rest = f'<p class="note">{more} more features are in the table alone.</p>' if more > 0 else ""
    folded = f'<details class="more"><summary>Errors of every feature</summary>{_table(fields, estimates)}</details>'
    return Section("fields", "Bias by segment", lead, f'{key}<div class="masonry">{charts}</div>{rest}{folded}')


def _table(fields: tuple[FieldComparison, ...], estimates: Mapping[str, PairedEstimate]) -> str:
    columns = (
        Column("feature", number=False),
        Column("values"),
        Column("biased values", hint="significant, corrected for the number of segments"),
        Column("Field-ECE before", hint="mean |predicted − observed| over the feature's values"),
        Column("after", alone="Field-ECE after"),
        Column("Field-RCE before", hint="the same, relative to the observed rate of each value"),
        Column("after", alone="Field-RCE after"),
    )
    lines = []
    for each in fields:
        name = each.before.field
        counts = [sum(segment.sure for segment in side.segments) for side in (each.before, each.after)]
        cells = [text(name), f"{each.before.n_values:,}", f"{counts[0]} → {counts[1]}"]
        for error in ("ece", "rce"):
            found = estimates[f"{error} {name}"]
            cells += [
                f"{number(found.before, 3)}<br>{interval(found.before_interval)}",
                f"{number(found.after, 3)}<br>{interval(found.after_interval)}",
            ]
        lines.append(cells)
    return table(columns, lines, label="errors of each feature")


def _figure(index: int, field: FieldComparison) -> str:
    pairs = list(zip(field.before.segments, field.after.segments, strict=True))
    limits = ratio_limits([end for pair in pairs for s in pair for end in (s.ratio, s.lower, s.upper)], widest=6.0)
    records = [_record(segment, state, limits) for pair in pairs for segment, state in zip(pair, STATES, strict=True)]
    return figure(
        f"field-{index}",
        _chart(records, [segment.segment for segment in field.before.segments], limits),
        f"PCOC of the values of {field.before.field} before and after calibration",
        height=_LINE * len(pairs) + 4,
    )


def _record(segment: SegmentBias, state: str, limits: tuple[float, float]) -> dict[str, Any]:
    low, high = limits
    inside = low <= segment.ratio <= high
    return {
        "segment": segment.segment,
        "state": state,
        "ratio": segment.ratio if inside else None,
        "pcoc": segment.ratio,
        "low": min(max(segment.lower, low), high),
        "high": max(min(segment.upper, high), low),
        "fill": state if segment.sure else "chance",
        "rows": segment.count,
        "rate": segment.label_rate,
        "p": segment.corrected_p_value,
    }


def _chart(records: list[dict[str, Any]], order: list[str], limits: tuple[float, float]) -> Any:
    alt = altair()
    base = alt.Chart(data(records))
    scale = alt.Scale(type="log", domain=list(limits), nice=False)
    x = alt.X(
        "ratio:Q", title="predicted / observed", scale=scale, axis=alt.Axis(values=ratio_ticks(*limits), format="~g")
    )
    y = alt.Y("segment:N", sort=order, title=None, axis=alt.Axis(labelLimit=130, grid=False, ticks=False, domain=False))
    offset = alt.YOffset("state:N", sort=list(STATES), scale=alt.Scale(paddingOuter=0.35))
    colour = alt.Color("state:N", scale=state_scale(), legend=None)
    fills = alt.Scale(domain=[*STATES, "chance"], range=[BEFORE, AFTER, CARD])
    tooltip = [
        alt.Tooltip("segment:N", title="segment"),
        alt.Tooltip("state:N", title=" "),
        alt.Tooltip("pcoc:Q", title="PCOC", format=".3f"),
        alt.Tooltip("rate:Q", title="label rate", format=".4f"),
        alt.Tooltip("rows:Q", title="rows", format=",.0f"),
        alt.Tooltip("p:Q", title="p (corrected)", format=".2g"),
    ]
    one = alt.Chart(data([{"one": 1.0}])).mark_rule(color=MUTED, strokeWidth=1.2).encode(x="one:Q")
    ranges = base.mark_rule(strokeWidth=2, opacity=0.7).encode(
        x=alt.X("low:Q", scale=scale), x2="high:Q", y=y, yOffset=offset, color=colour, tooltip=tooltip
    )
    marks = base.mark_point(size=74, strokeWidth=1.8, opacity=1).encode(
        x=x,
        y=y,
        yOffset=offset,
        stroke=alt.Stroke("state:N", scale=state_scale(), legend=None),
        fill=alt.Fill("fill:N", scale=fills, legend=None),
        shape=alt.Shape("state:N", scale=state_shapes(), legend=None),
        tooltip=tooltip,
    )
    return alt.layer(one, ranges, marks)
