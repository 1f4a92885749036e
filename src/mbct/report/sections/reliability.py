"""Chapter: reliability before and after, and the histogram of the scores."""

from typing import Any

import numpy as np

from mbct.evaluation.diagnostics.reliability import ReliabilityCurve, reliability_of_rows
from mbct.report.charts import AFTER, BEFORE, MUTED, STATES, altair, data, figure, state_scale, state_shapes
from mbct.report.page import Section
from mbct.report.scored import Scored

N_BINS = 15
_AXIS_WIDTH = 52  # Room for the labels of the vertical axes, so that both charts share their left edge


Curves = tuple[ReliabilityCurve, ...]


def compute(scored: Scored) -> tuple[Curves, Curves]:
    """Isotonic curves before and after, their histograms over the same bars, and curves of bins."""
    reach = float(max(scored.before.y_prob.max(), scored.after.y_prob.max()))
    sides = list(zip(STATES, (scored.before, scored.after), strict=True))
    isotonic, binned = (
        tuple(reliability_of_rows(rows, name, n_bins, 0.95, reach) for name, rows in sides) for n_bins in (None, N_BINS)
    )
    return isotonic, binned


def render(computed: tuple[Curves, Curves]) -> Section:
    """Both charts, one above the other, and the gaps of bins beside them."""
    curves, binned = computed
    highest = min(max(curve.highest for curve in curves) * 1.03, 1.0)
    diagram = figure(
        "reliability",
        _diagram(curves, highest),
        "Isotonic label rate against prediction before and after calibration, with 95 % bands",
        height=340,
    )
    bars = figure("scores", _histogram(curves, highest), "Histogram of the predictions before and after", height=110)
    lead = (
        "Left, the label rate as a rising function of the prediction (isotonic, no bins to choose). On the dashed line "
        "it equals the prediction; below it predictions are too high. Bands are 95 %, from 200 redrawn sets of labels. "
        f"Right, the gap in {N_BINS} bins of equal size, with 95 % intervals (Wilson)."
    )
    gaps = figure("gaps", _gaps(binned), "Label rate less prediction of each bin, with 95 % intervals", height=430)
    body = (
        f'<div class="duo"><div><h3>Label rate against prediction</h3>{diagram}{bars}</div>'
        f"<div><h3>Label rate − prediction</h3>{gaps}</div></div>"
    )
    return Section("reliability", "Reliability before and after", lead, body)


def _gaps(curves: tuple[ReliabilityCurve, ...]) -> Any:
    """What is left between the label rate and the prediction of each bin: 0 is right."""
    alt = altair()
    records = [
        {
            "state": c.name,
            "bin": i,
            "gap": float(r - p),
            "low": float(a - p),
            "high": float(b - p),
            "prediction": float(p),
        }
        for c in curves
        for i, (p, r, a, b) in enumerate(zip(c.mean_prediction, c.label_rate, c.lower, c.upper, strict=True), start=1)
    ]
    x = alt.X(
        "bin:O",
        title="bin, by rising prediction",
        axis=alt.Axis(labelAngle=0, labelOverlap=True, labelSeparation=4, grid=False),
    )
    offset = alt.XOffset("state:N", sort=list(STATES))
    colour = alt.Color("state:N", scale=state_scale(), sort=list(STATES))
    base = alt.Chart(data(records))
    zero = alt.Chart(data([{"zero": 0.0}])).mark_rule(color=MUTED, strokeWidth=1.2).encode(y="zero:Q")
    ranges = base.mark_rule(strokeWidth=2, opacity=0.7).encode(
        x=x, xOffset=offset, y=alt.Y("low:Q", title=None, axis=alt.Axis(tickCount=6)), y2="high:Q", color=colour
    )
    dots = base.mark_point(filled=True, size=60, opacity=1).encode(
        x=x,
        xOffset=offset,
        y="gap:Q",
        color=colour,
        shape=alt.Shape("state:N", scale=state_shapes(), sort=list(STATES)),
        tooltip=[
            alt.Tooltip("state:N", title=" "),
            alt.Tooltip("prediction:Q", title="mean prediction", format=".4f"),
            alt.Tooltip("gap:Q", title="label rate − prediction", format="+.4f"),
        ],
    )
    return alt.layer(zero, ranges, dots)


def _diagram(curves: tuple[ReliabilityCurve, ...], highest: float) -> Any:
    alt = altair()
    records = [
        {"state": c.name, "prediction": float(p), "rate": float(r), "low": float(a), "high": float(b), "rows": float(n)}
        for c in curves
        for p, r, a, b, n in zip(c.mean_prediction, c.label_rate, c.lower, c.upper, c.count, strict=True)
    ]
    scale = alt.Scale(domain=[0, highest], nice=False)
    x = alt.X("prediction:Q", title="prediction", scale=scale, axis=alt.Axis(tickCount=6))
    axis = alt.Axis(tickCount=6, minExtent=_AXIS_WIDTH, maxExtent=_AXIS_WIDTH)
    colour = alt.Color("state:N", scale=state_scale(), sort=list(STATES))
    base = alt.Chart(data(records))
    band = base.mark_area(opacity=0.18, clip=True).encode(
        x=x, y=alt.Y("low:Q", scale=scale, title="label rate", axis=axis), y2="high:Q", color=colour
    )
    line = base.mark_line(strokeWidth=2, clip=True).encode(x=x, y=alt.Y("rate:Q", scale=scale, axis=axis), color=colour)
    # Not seen, they carry what the pointer shows.
    dots = base.mark_point(filled=True, size=60, opacity=0, clip=True).encode(
        x=x,
        y=alt.Y("rate:Q", scale=scale, axis=axis),
        color=colour,
        tooltip=[
            alt.Tooltip("state:N", title=" "),
            alt.Tooltip("prediction:Q", title="prediction", format=".4f"),
            alt.Tooltip("rate:Q", title="label rate", format=".4f"),
            alt.Tooltip("low:Q", title="from", format=".4f"),
            alt.Tooltip("high:Q", title="to", format=".4f"),
            alt.Tooltip("rows:Q", title="rows", format=",.0f"),
        ],
    )
    ends = alt.Chart(data([{"at": 0.0}, {"at": highest}]))
    right = ends.mark_line(strokeDash=[5, 4], color=MUTED, strokeWidth=1.2).encode(x="at:Q", y="at:Q")
    return alt.layer(right, band, line, dots)


def _histogram(curves: tuple[ReliabilityCurve, ...], highest: float) -> Any:
    alt = altair()
    layers = []
    for curve, colour in zip(curves, (BEFORE, AFTER), strict=True):
        shown = np.flatnonzero(curve.ends[:-1] < highest)
        records = [
            {"from": float(curve.ends[i]), "to": float(curve.ends[i + 1]), "share": float(curve.histogram[i])}
            for i in shown
        ]
        records.append({"from": float(curve.ends[shown[-1] + 1]), "to": float(curve.reach), "share": 0.0})
        layers.append(
            alt.Chart(data(records))
            .mark_area(
                interpolate="step-after",
                opacity=0.22,
                line={"color": colour, "strokeWidth": 1.5},
                color=colour,
                clip=True,
            )
            .encode(
                x=alt.X(
                    "from:Q",
                    title="prediction",
                    scale=alt.Scale(domain=[0, highest], nice=False),
                    axis=alt.Axis(tickCount=6, grid=False),
                ),
                y=alt.Y(
                    "share:Q",
                    title="share of rows",
                    axis=alt.Axis(format=".0%", tickCount=3, minExtent=_AXIS_WIDTH, maxExtent=_AXIS_WIDTH),
                ),
            )
        )
    return alt.layer(*layers)
