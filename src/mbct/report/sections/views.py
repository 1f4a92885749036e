"""Chapter: the multi-view picture."""

from mbct.evaluation.diagnostics.views import ViewError, view_errors
from mbct.report.charts import AFTER, BEFORE, MUTED, STATES, altair, chart, figure, tooltip
from mbct.report.page import Section
from mbct.report.scored import Scored

MOST_FEATURES = 12
_CHANCE = "chance"
_TICK = "M-0.14,-1L0.14,-1L0.14,1L-0.14,1Z"  # A thin upright bar, as a path


def section(scored: Scored, order: list[str]) -> Section:
    """One line a view: shuffled, sorted, then the features, by falling error before."""
    before, after = (view_errors(rows, scored.fields) for rows in (scored.before, scored.after))
    pairs = list(zip(before, after, strict=True))
    features = {pair[0].view: pair for pair in pairs[2:]}
    views = [*pairs[:2], *(features[f"by {name}"] for name in order[:MOST_FEATURES])]
    lead = (
        "The same predictions divided in several ways; shown is the mean gap between prediction and label rate over "
        "the parts. Shuffled parts (the paper's MVCE) see only the total bias and noise; what cancels between segments "
        "shows when rows are divided by features. The tick is what the noise of independent labels alone would "
        "leave of the calibrated predictions, if they were right."
    )
    what = "Mean calibration gap over shuffled parts, parts by prediction and parts by each feature"
    drawn = figure("views", _chart(views), what, height=max(34 * len(views), 110))
    return Section("views", "Many views of the same error", lead, drawn, folded=True)


def _chart(views: list[tuple[ViewError, ViewError]]) -> object:
    alt = altair()
    shown = [
        {"view": before.view, "what": what, "error": float(error)}
        for before, after in views
        for what, error in (("before", before.error), ("after", after.error), (_CHANCE, after.by_chance))
    ]
    domain = [*STATES, _CHANCE]
    x = alt.X(
        "error:Q", title="mean |prediction − label rate|", scale=alt.Scale(domainMin=0), axis=alt.Axis(tickCount=5)
    )
    axis = alt.Axis(labelLimit=150, ticks=False, domain=False, grid=True)
    y = alt.Y("view:N", sort=[before.view for before, _ in views], title=None, axis=axis)
    base = chart(shown).encode(x=x, y=y)
    joined = (
        base.transform_filter(alt.FieldOneOfPredicate(field="what", oneOf=list(STATES)))
        .mark_line(color=MUTED, opacity=0.5, strokeWidth=1.5)
        .encode(detail="view:N")
    )
    marks = base.mark_point(size=110, filled=True, opacity=1).encode(
        color=alt.Color("what:N", sort=domain, scale=alt.Scale(domain=domain, range=[BEFORE, AFTER, MUTED])),
        shape=alt.Shape("what:N", sort=domain, scale=alt.Scale(domain=domain, range=["circle", "diamond", _TICK])),
        tooltip=tooltip({"view": "view:N", " ": "what:N", "error": "error:Q .5f"}),
    )
    return alt.layer(joined, marks)
