"""Chapter: the multi-view picture."""

from dataclasses import dataclass
from typing import Any

from mbct.evaluation.diagnostics.views import ViewError, view_errors
from mbct.report.charts import AFTER, BEFORE, MUTED, STATES, altair, data, figure
from mbct.report.page import Section
from mbct.report.scored import Scored

MOST_FEATURES = 12
_CHANCE = "chance"
_TICK = "M-0.14,-1L0.14,-1L0.14,1L-0.14,1Z"  # A thin upright bar, as a path


@dataclass(frozen=True)
class ViewComparison:
    """One division before and after."""

    before: ViewError
    after: ViewError


def compute(scored: Scored, order: list[str]) -> tuple[ViewComparison, ...]:
    """Shuffled, sorted, then the features, by falling error before."""
    before, after = (view_errors(rows, scored.fields) for rows in (scored.before, scored.after))
    pairs = [ViewComparison(was, now) for was, now in zip(before, after, strict=True)]
    features = {pair.before.view: pair for pair in pairs[2:]}
    return (*pairs[:2], *(features[f"by {name}"] for name in order[:MOST_FEATURES]))


def render(views: tuple[ViewComparison, ...]) -> Section:
    """One line a view."""
    lead = (
        "The same predictions divided in several ways; shown is the mean gap between prediction and label rate over "
        "the parts. Shuffled parts (the paper's MVCE) see only the total bias and noise; what cancels between segments "
        "shows when rows are divided by features. The tick is what noise alone would leave of the calibrated "
        "predictions, if they were right."
    )
    chart = figure(
        "views",
        _chart(views),
        "Mean calibration gap over shuffled parts, parts by prediction and parts by each feature",
        height=max(34 * len(views), 110),
    )
    return Section("views", "Many views of the same error", lead, chart, folded=True)


def _chart(views: tuple[ViewComparison, ...]) -> Any:
    alt = altair()
    records = []
    for pair in views:
        shown = (("before", pair.before.error), ("after", pair.after.error), (_CHANCE, pair.after.by_chance))
        records += [{"view": pair.before.view, "what": what, "error": float(value)} for what, value in shown]
    domain = [*STATES, _CHANCE]
    base = alt.Chart(data(records))
    x = alt.X(
        "error:Q", title="mean |prediction − label rate|", scale=alt.Scale(domainMin=0), axis=alt.Axis(tickCount=5)
    )
    y = alt.Y(
        "view:N",
        sort=[pair.before.view for pair in views],
        title=None,
        axis=alt.Axis(labelLimit=150, ticks=False, domain=False, grid=True),
    )
    joined = (
        base.transform_filter(alt.FieldOneOfPredicate(field="what", oneOf=list(STATES)))
        .mark_line(color=MUTED, opacity=0.5, strokeWidth=1.5)
        .encode(x=x, y=y, detail="view:N")
    )
    colour = alt.Color("what:N", sort=domain, scale=alt.Scale(domain=domain, range=[BEFORE, AFTER, MUTED]))
    shape = alt.Shape("what:N", sort=domain, scale=alt.Scale(domain=domain, range=["circle", "diamond", _TICK]))
    tooltip = [alt.Tooltip("view:N"), alt.Tooltip("what:N", title=" "), alt.Tooltip("error:Q", format=".5f")]
    marks = base.mark_point(size=110, filled=True, opacity=1).encode(
        x=x, y=y, color=colour, shape=shape, tooltip=tooltip
    )
    return alt.layer(joined, marks)
