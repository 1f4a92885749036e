"""Chapter: PCOC and field errors of every segment feature."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mbct.data.columns import is_number
from mbct.evaluation.diagnostics.field_bias import FieldBias, SegmentBias, field_bias_of_rows
from mbct.evaluation.diagnostics.subgroups import ratio_limits
from mbct.evaluation.metrics.rows import Rows
from mbct.report.charts import (
    AFTER,
    BEFORE,
    CARD,
    STATES,
    altair,
    chart,
    figure,
    line_at,
    ratio_axis,
    state_colour,
    state_shape,
    tooltip,
)
from mbct.report.page import Column, Section, card, change, interval, number, table, text
from mbct.report.paired import PairedEstimate, Statistic
from mbct.report.scored import Scored
from mbct.stats.divisions import Bins
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
    later = {each.field: each for each in after}
    return tuple(
        FieldComparison(*(_in_order(scored, each.field, of, each) for of in (each, later[each.field])))
        for each in before
    )


def _in_order(scored: Scored, name: str, field: FieldBias, first: FieldBias) -> FieldBias:
    """A field with its segments in one order: numbers by value, others by rising PCOC of ``first``."""
    names = [segment.segment for segment in first.segments]
    if is_number(scored.predictions.columns.column(name)):
        labels = next(each.labels for each in scored.fields if each.name == name)
        position = {label: i for i, label in enumerate(labels)}
        names.sort(key=lambda label: position.get(label, len(labels)))
    return replace(field, segments=tuple(sorted(field.segments, key=lambda segment: names.index(segment.segment))))


def biased(fields: tuple[FieldComparison, ...]) -> tuple[int, int, int]:
    """Segments significantly biased before, after, and all of them."""
    before = [segment for field in fields for segment in field.before.segments]
    after = [segment for field in fields for segment in field.after.segments]
    return sum(s.significant for s in before), sum(s.significant for s in after), len(before)


def statistics(scored: Scored) -> dict[str, Statistic]:
    """Field-ECE and Field-RCE of every field, to be resampled."""
    found: dict[str, Statistic] = {}
    for i, field in enumerate(scored.fields):
        found[f"ece {field.name}"] = partial(_field_error, i, len(field), field_error)
        found[f"rce {field.name}"] = partial(_field_error, i, len(field), lambda v: relative_field_error(v).all_values)
    return found


def _field_error(field: int, n_values: int, error: Callable[[Bins], float], rows: Rows) -> float:
    return error(rows.values(field, n_values))


def render(fields: tuple[FieldComparison, ...], estimates: Mapping[str, PairedEstimate], tested_by: str) -> Section:
    """A table of field errors, then a chart a field."""
    was, now, total = biased(fields)
    lead = (
        "Predicted over observed positives (PCOC) of each value: 1 is right, below 1 predictions are too low. Lines "
        f"are 95 % intervals; a filled mark is a significant bias after Holm's correction over {total:,} segments "
        f"({was:,} before, {now:,} after), both {tested_by}."
    )
    if not fields:
        nothing = "The data has no column besides the score that could tell segments apart."
        return Section("fields", "Bias by segment", nothing, "")
    charts = "".join(
        card(each.before.field, _figure(i, each), f"Field-ECE {change(each.before.error, each.after.error, 3)}")
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
        counts = [sum(segment.significant for segment in side.segments) for side in (each.before, each.after)]
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
    pairs = field.pairs()
    limits = ratio_limits([end for pair in pairs for s in pair for end in (s.ratio, s.lower, s.upper)], widest=6.0)
    shown = [_record(segment, state, *limits) for pair in pairs for segment, state in zip(pair, STATES, strict=True)]
    what = f"PCOC of the values of {field.before.field} before and after calibration"
    drawn = _chart(shown, [segment.segment for segment, _ in pairs], limits)
    return figure(f"field-{index}", drawn, what, height=_LINE * len(pairs) + 4)


def _record(segment: SegmentBias, state: str, low: float, high: float) -> dict[str, Any]:
    return {
        "segment": segment.segment,
        "state": state,
        "ratio": segment.ratio if low <= segment.ratio <= high else None,
        "pcoc": segment.ratio,
        "low": min(max(segment.lower, low), high),
        "high": max(min(segment.upper, high), low),
        "fill": state if segment.significant else "chance",
        "rows": segment.count,
        "rate": segment.label_rate,
        "p": segment.corrected_p_value,
    }


def _chart(shown: list[dict[str, Any]], order: list[str], limits: tuple[float, float]) -> Any:
    alt = altair()
    tips = {"segment": "segment:N", " ": "state:N", "PCOC": "pcoc:Q .3f", "label rate": "rate:Q .4f"}
    axis = alt.Axis(labelLimit=130, grid=False, ticks=False, domain=False)
    base = chart(shown).encode(
        y=alt.Y("segment:N", sort=order, title=None, axis=axis),
        yOffset=alt.YOffset("state:N", sort=list(STATES), scale=alt.Scale(paddingOuter=0.35)),
        tooltip=tooltip({**tips, "rows": "rows:Q ,.0f", "p (corrected)": "p:Q .2g"}),
    )
    ranges = base.mark_rule(strokeWidth=2, opacity=0.7).encode(
        x=alt.X("low:Q", scale=ratio_axis(limits)["scale"]), x2="high:Q", color=state_colour(legend=None)
    )
    fills = alt.Scale(domain=[*STATES, "chance"], range=[BEFORE, AFTER, CARD])
    marks = base.mark_point(size=74, strokeWidth=1.8, opacity=1).encode(
        x=alt.X("ratio:Q", title="predicted / observed", **ratio_axis(limits)),
        stroke=state_colour("Stroke", legend=None),
        fill=alt.Fill("fill:N", scale=fills, legend=None),
        shape=state_shape(legend=None),
    )
    return alt.layer(line_at(x=1.0), ranges, marks)
