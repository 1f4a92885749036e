"""Chapter: PUD of the sub-groups of bins, the calibrator beside histogram binning."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mbct.calibrators.score_only.binning import HistogramCalibrator
from mbct.evaluation.diagnostics.subgroups import SubgroupRatios, compare_with_histogram, ratio_limits, ratio_ticks
from mbct.report.charts import AFTER, BEFORE, MUTED, altair, data, figure
from mbct.report.page import Section, number, text
from mbct.report.scored import Scored

N_BINS = 10
N_PARTS = 4


@dataclass(frozen=True)
class SubgroupComparison:
    """Both strips, and the feature along which their bins were divided."""

    strips: tuple[SubgroupRatios, SubgroupRatios]
    along: str


def compute(scored: Scored, order: list[str]) -> SubgroupComparison:
    """Sub-groups along the feature of the largest error before, or along the prediction where there is none."""
    rows = scored.predictions
    codes = np.zeros(len(rows.before), dtype=np.int64)
    if order:
        codes = next(field.codes for field in scored.fields if field.name == order[0])
    histogram = HistogramCalibrator(n_bins=N_BINS).fit(rows.before, rows.y_true, rows.weight)
    name = "MBCT" if scored.model is not None else scored.calibrator.method
    strips = compare_with_histogram(rows, histogram, codes, N_BINS, N_PARTS, name)
    return SubgroupComparison(strips, order[0] if order else "the prediction")


def render(found: SubgroupComparison) -> Section:
    """Two charts with one scale."""
    lead = (
        f"Each bin is cut into {N_PARTS} equal parts along {found.along}. If the rows of a bin share one bias, every "
        "part's PUD (mean prediction / label rate) is near 1. Histogram binning is fitted on these very rows; the "
        "model's bins hold rows that it moves by about the same factor."
    )
    limits = ratio_limits([strip.ratio for strip in found.strips], widest=6.0)
    cards = "".join(
        f'<article class="card"><h3>{text(strip.name)}</h3>'
        f'<p class="note">mean |log PUD| {number(strip.spread, 3)}</p>'
        + figure(f"pud-{i}", _chart(strip, limits, colour), f"PUD of the parts of each bin of {strip.name}", height=240)
        + "</article>"
        for i, (strip, colour) in enumerate(zip(found.strips, (AFTER, BEFORE), strict=True))
    )
    return Section("pud", "Do the rows of a bin share one bias?", lead, f'<div class="grid">{cards}</div>', folded=True)


def _chart(strip: SubgroupRatios, limits: tuple[float, float], colour: str) -> Any:
    alt = altair()
    low, high = limits
    records, ranges = [], []
    for number_of_bin, ratios in enumerate(strip.ratio, start=1):
        known = ratios[~np.isnan(ratios)]  # neither predicted nor observed positives: nothing to show
        if not len(known):
            continue
        shown = np.clip(known, low, high)
        ranges.append({"bin": number_of_bin, "low": float(shown.min()), "high": float(shown.max())})
        records += [
            {"bin": number_of_bin, "part": part, "shown": float(at), "pud": float(value)}
            for part, (at, value) in enumerate(zip(shown, known, strict=True), start=1)
        ]
    x = alt.X("bin:O", title="bin", axis=alt.Axis(labelAngle=0, grid=False))
    scale = alt.Scale(type="log", domain=list(limits), nice=False)
    axis = alt.Axis(values=ratio_ticks(*limits), format="~g")
    spans = (
        alt.Chart(data(ranges))
        .mark_rule(strokeWidth=7, opacity=0.25, strokeCap="round", color=colour)
        .encode(x=x, y=alt.Y("low:Q", title="PUD", scale=scale, axis=axis), y2="high:Q")
    )
    one = alt.Chart(data([{"one": 1.0}])).mark_rule(color=MUTED, strokeWidth=1.2).encode(y="one:Q")
    dots = (
        alt.Chart(data(records))
        .mark_point(filled=True, size=38, opacity=1, color=colour)
        .encode(
            x=x,
            y=alt.Y("shown:Q", scale=scale, axis=axis),
            tooltip=[alt.Tooltip("bin:O"), alt.Tooltip("part:O"), alt.Tooltip("pud:Q", title="PUD", format=".3f")],
        )
    )
    return alt.layer(one, spans, dots)
