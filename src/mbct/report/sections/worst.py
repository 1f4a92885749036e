"""Chapter: the segments that were worst before."""

from mbct.evaluation.diagnostics.field_bias import SegmentBias, worst_segments
from mbct.report.page import Column, Section, number, ratio, ratio_interval, table, text
from mbct.report.scored import Scored

MOST = 6


def section(scored: Scored, order: list[str]) -> Section:
    """The worst values and pairs of values, worst first; ``order`` names the fields by falling error."""
    position = {field.name: i for i, field in enumerate(scored.fields)}
    numbers = [position[name] for name in order]
    worst, tested = (
        worst_segments(scored.before, scored.after, scored.fields, numbers, MOST, 0.95) if numbers else ((), 0)
    )
    lead = (
        f"Of {tested:,} single values and pairs of values, those whose bias is largest even at the near end of its "
        "95 % interval. A pair is listed only where it is significantly worse than each of its values. ● marks a "
        f"significant bias after Holm's correction. Intervals and tests go {scored.tested_by}."
    )
    title = "Where predictions were furthest off"
    if not worst:
        return Section("worst", title, f"None of {tested:,} segments was significantly biased before calibration.", "")
    columns = (
        Column("segment", number=False),
        Column("rows"),
        Column("label rate"),
        Column("PCOC before", hint="predicted / observed positives"),
        Column("PCOC after"),
    )
    lines = [
        [
            f"<b>{text(each.before.field)}</b> = {text(each.before.segment)}",
            f"{each.before.count:,.0f}",
            number(each.before.label_rate, 3),
            _cell(each.before),
            _cell(each.after),
        ]
        for each in worst
    ]
    return Section("worst", title, lead, table(columns, lines, label="worst segments"))


def _cell(segment: SegmentBias) -> str:
    sure = ' <span class="sure" title="significant">●</span>' if segment.significant else ""
    return f"{ratio(segment.ratio)}{sure}<br>{ratio_interval((segment.lower, segment.upper))}"
