"""Chapter: reliability before and after, and the histogram of the scores."""

from typing import Any

import numpy as np

from mbct.evaluation.diagnostics.reliability import ReliabilityCurve, reliability_of_rows
from mbct.report.charts import (
    AFTER,
    BEFORE,
    MUTED,
    STATES,
    altair,
    chart,
    figure,
    line_at,
    records,
    state_colour,
    state_shape,
    tooltip,
    upright_axis,
)
from mbct.report.page import Section
from mbct.report.scored import Scored

N_BINS = 15
_AXIS_WIDTH = 52  # Room for the labels of the vertical axes, so that both charts share their left edge

Curves = list[ReliabilityCurve]


def section(scored: Scored) -> Section:
    """Isotonic curves above their histograms over the same bars, and the gaps of bins beside them."""
    reach = float(max(scored.before.y_prob.max(), scored.after.y_prob.max()))
    sides = list(zip(STATES, (scored.before, scored.after), strict=True))
    curves, binned = (
        [reliability_of_rows(rows, name, n_bins, 0.95, reach) for name, rows in sides] for n_bins in (None, N_BINS)
    )
    highest = min(max(curve.highest for curve in curves) * 1.03, 1.0)
    diagram = figure(
        "reliability",
        _diagram(curves, highest),
        "Isotonic label rate against prediction before and after calibration, with 95 % bands",
        height=340,
    )
    bars = figure("scores", _histogram(curves, highest), "Histogram of the predictions before and after", height=110)
    redrawn = "labels" if scored.before.blocks is None else "labels and of whole blocks of rows, the wider of the two"
    lead = (
        "Left, the label rate as a rising function of the prediction (isotonic, no bins to choose). On the dashed line "
        "it equals the prediction; below it predictions are too high. Bands are 95 %, from 200 redrawn sets of "
        f"{redrawn}. Right, the gap in {N_BINS} bins of equal size, with 95 % intervals (Wilson) {scored.tested_by}."
    )
    gaps = figure("gaps", _gaps(binned), "Label rate less prediction of each bin, with 95 % intervals", height=430)
    body = (
        f'<div class="duo"><div><h3>Label rate against prediction</h3>{diagram}{bars}</div>'
        f"<div><h3>Label rate − prediction</h3>{gaps}</div></div>"
    )
    return Section("reliability", "Reliability before and after", lead, body)


def _gaps(curves: Curves) -> Any:
    """What is left between the label rate and the prediction of each bin: 0 is right."""
    alt = altair()
    shown = []
    for c in curves:
        p = c.mean_prediction
        ends = {"low": c.lower - p, "high": c.upper - p, "prediction": p}
        shown += records(state=c.name, bin=np.arange(1, len(p) + 1), gap=c.label_rate - p, **ends)
    place = {
        "x": alt.X("bin:O", title="bin, by rising prediction", axis=upright_axis()),
        "xOffset": alt.XOffset("state:N", sort=list(STATES)),
        "color": state_colour(),
    }
    tips = {" ": "state:N", "mean prediction": "prediction:Q .4f", "label rate − prediction": "gap:Q +.4f"}
    ranges = (
        chart(shown)
        .mark_rule(strokeWidth=2, opacity=0.7)
        .encode(**place, y=alt.Y("low:Q", title=None, axis=alt.Axis(tickCount=6)), y2="high:Q")
    )
    dots = (
        chart(shown)
        .mark_point(filled=True, size=60, opacity=1)
        .encode(**place, y="gap:Q", shape=state_shape(), tooltip=tooltip(tips))
    )
    return alt.layer(line_at(y=0.0), ranges, dots)


def _diagram(curves: Curves, highest: float) -> Any:
    alt = altair()
    shown = []
    for c in curves:
        ends = {"low": c.lower, "high": c.upper, "rows": c.count}
        shown += records(state=c.name, prediction=c.mean_prediction, rate=c.label_rate, **ends)
    scale = alt.Scale(domain=[0, highest], nice=False)
    axis = alt.Axis(tickCount=6, minExtent=_AXIS_WIDTH, maxExtent=_AXIS_WIDTH)
    x = alt.X("prediction:Q", title="prediction", scale=scale, axis=alt.Axis(tickCount=6))
    y = alt.Y("rate:Q", scale=scale, axis=axis)
    base = chart(shown).encode(x=x, color=state_colour())
    band = base.mark_area(opacity=0.18, clip=True).encode(
        y=alt.Y("low:Q", scale=scale, title="label rate", axis=axis), y2="high:Q"
    )
    line = base.mark_line(strokeWidth=2, clip=True).encode(y=y)
    tips = {" ": "state:N", "prediction": "prediction:Q .4f", "label rate": "rate:Q .4f"}
    tips |= {"from": "low:Q .4f", "to": "high:Q .4f", "rows": "rows:Q ,.0f"}
    # Not seen, they carry what the pointer shows.
    dots = base.mark_point(filled=True, size=60, opacity=0, clip=True).encode(y=y, tooltip=tooltip(tips))
    ends_of_line = chart(records(at=np.array([0.0, highest])))
    right = ends_of_line.mark_line(strokeDash=[5, 4], color=MUTED, strokeWidth=1.2).encode(x="at:Q", y="at:Q")
    return alt.layer(right, band, line, dots)


def _histogram(curves: Curves, highest: float) -> Any:
    alt = altair()
    scale = alt.Scale(domain=[0, highest], nice=False)
    x = alt.X("from:Q", title="prediction", scale=scale, axis=alt.Axis(tickCount=6, grid=False))
    axis = alt.Axis(format=".0%", tickCount=3, minExtent=_AXIS_WIDTH, maxExtent=_AXIS_WIDTH)
    y = alt.Y("share:Q", title="share of rows", axis=axis)
    layers = []
    for curve, colour in zip(curves, (BEFORE, AFTER), strict=True):
        last = int(np.sum(curve.ends[:-1] < highest))  # bars beyond the diagram are not drawn
        shown = records(**{"from": curve.ends[: last + 1], "share": np.append(curve.histogram[:last], 0.0)})
        line = {"color": colour, "strokeWidth": 1.5}
        bars = chart(shown).mark_area(interpolate="step-after", opacity=0.22, line=line, color=colour, clip=True)
        layers.append(bars.encode(x=x, y=y))
    return alt.layer(*layers)
