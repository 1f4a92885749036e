"""Chapter: PUD of the sub-groups of bins, the calibrator beside histogram binning."""

from typing import Any

import numpy as np

from mbct.calibrators.score_only.binning import HistogramCalibrator
from mbct.evaluation.diagnostics.subgroups import SubgroupRatios, compare_with_histogram, ratio_limits
from mbct.report.charts import AFTER, BEFORE, altair, chart, figure, line_at, ratio_axis, records, tooltip
from mbct.report.page import Section, card, number
from mbct.report.scored import Scored

N_BINS = 10
N_PARTS = 4


def section(scored: Scored, order: list[str]) -> Section:
    """Sub-groups along the feature of the largest error before, or along the prediction where there is none."""
    rows = scored.predictions
    along = order[0] if order else "the prediction"
    codes = np.zeros(len(rows.before), dtype=np.int64)
    if order:
        codes = next(field.codes for field in scored.fields if field.name == along)
    histogram = HistogramCalibrator(n_bins=N_BINS).fit(rows.before, rows.y_true, rows.weight)
    name = "MBCT" if scored.model is not None else scored.calibrator.method
    strips = compare_with_histogram(rows, histogram, codes, N_BINS, N_PARTS, name)
    lead = (
        f"Each bin is cut into {N_PARTS} equal parts along {along}. If the rows of a bin share one bias, every "
        "part's PUD (mean prediction / label rate) is near 1. Histogram binning is fitted on these very rows; the "
        "model's bins hold rows that it moves by about the same factor."
    )
    limits = ratio_limits([strip.ratio for strip in strips], widest=6.0)
    cards = ""
    for i, (strip, colour) in enumerate(zip(strips, (AFTER, BEFORE), strict=True)):
        what = f"PUD of the parts of each bin of {strip.name}"
        drawn = figure(f"pud-{i}", _chart(strip, limits, colour), what, height=240)
        cards += card(strip.name, drawn, f"mean |log PUD| {number(strip.spread, 3)}")
    return Section("pud", "Do the rows of a bin share one bias?", lead, f'<div class="grid">{cards}</div>', folded=True)


def _chart(strip: SubgroupRatios, limits: tuple[float, float], colour: str) -> Any:
    alt = altair()
    parts, spans = [], []
    for bin_number, ratios in enumerate(strip.ratio, start=1):
        known = ratios[~np.isnan(ratios)]  # neither predicted nor observed positives: nothing to show
        if not len(known):
            continue
        shown = np.clip(known, *limits)
        spans.append({"bin": bin_number, "low": float(shown.min()), "high": float(shown.max())})
        parts += records(bin=bin_number, part=np.arange(1, len(known) + 1), shown=shown, pud=known)
    x = alt.X("bin:O", title="bin", axis=alt.Axis(labelAngle=0, grid=False))
    ranges = (
        chart(spans)
        .mark_rule(strokeWidth=7, opacity=0.25, strokeCap="round", color=colour)
        .encode(x=x, y=alt.Y("low:Q", title="PUD", **ratio_axis(limits)), y2="high:Q")
    )
    tips = tooltip({"bin": "bin:O", "part": "part:O", "PUD": "pud:Q .3f"})
    dots = (
        chart(parts)
        .mark_point(filled=True, size=38, opacity=1, color=colour)
        .encode(x=x, y=alt.Y("shown:Q", **ratio_axis(limits)), tooltip=tips)
    )
    return alt.layer(line_at(y=1.0), ranges, dots)
