"""Chapter: predicted over observed positives through time, before and after."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.evaluation.diagnostics.field_bias import GroupColumns, group_columns
from mbct.evaluation.diagnostics.subgroups import ratio_limits, ratio_ticks
from mbct.report.charts import MUTED, STATES, altair, data, figure, state_scale, state_shapes
from mbct.report.page import Section
from mbct.report.scored import Scored

_UNITS = ((45, "day", "D"), (400, "week", "W"), (1800, "month", "M"))  # Longest span in days of each unit; years beyond
_MOST_NUMBERS = 60  # Whole numbers are periods themselves up to so many; more are cut into stretches


@dataclass(frozen=True)
class Timeline:
    """Periods in order, their unit in words, and the sums of each before and after."""

    unit: str
    periods: tuple[str, ...]
    before: GroupColumns
    after: GroupColumns


def compute(scored: Scored) -> Timeline | None:
    """PCOC of every period; None where no time is known, or only one period."""
    if scored.time is None:
        return None
    unit, codes, periods = periods_of(scored.time)
    if len(periods) < 2:
        return None
    before, after = (group_columns(rows, codes, len(periods), 0.95) for rows in (scored.before, scored.after))
    return Timeline(unit, periods, before, after)


def periods_of(time: npt.NDArray[Any]) -> tuple[str, npt.NDArray[np.int64], tuple[str, ...]]:
    """Unit, number of each row's period and the periods' names.

    >>> periods_of(np.array(["2024-01-31T10", "2024-02-01T11"], dtype="datetime64[h]"))[1:]
    (array([0, 1]), ('2024-01-31', '2024-02-01'))
    """
    if time.dtype.kind != "M":
        values, codes = np.unique(time, return_inverse=True)
        if len(values) > _MOST_NUMBERS:
            edges = np.unique(np.quantile(time, np.arange(1, _MOST_NUMBERS) / _MOST_NUMBERS, method="inverted_cdf"))
            values, codes = np.unique(np.searchsorted(edges, time, side="left"), return_inverse=True)
            return "stretch", codes.astype(np.int64), tuple(f"{value + 1}" for value in values)
        return "period", codes.astype(np.int64), tuple(f"{value:g}" for value in values)
    days = time.astype("datetime64[D]")
    span = int((days.max() - days.min()).astype(np.int64)) + 1
    name, code = next(((name, code) for longest, name, code in _UNITS if span <= longest), ("year", "Y"))
    shift = 4 if code == "W" else 0  # numpy's weeks begin on Thursdays, ours on Mondays
    periods, codes = np.unique((days - shift).astype(f"datetime64[{code}]"), return_inverse=True)
    shown = periods.astype("datetime64[D]") + shift if code in "DW" else periods
    return name, codes.astype(np.int64), tuple(map(str, shown))


def render(found: Timeline) -> Section:
    """One chart."""
    lead = (
        f"Predicted over observed positives (PCOC) of each {found.unit}: 1 is right, below 1 predictions are too low. "
        "Bands are 95 % intervals of the label rate. A drift after the model was fitted asks for a refit."
    )
    chart = figure("time", _chart(found), f"PCOC of each {found.unit} before and after calibration", height=240)
    return Section("time", "Through time", lead, chart)


def _chart(found: Timeline) -> Any:
    alt = altair()
    sides = tuple(zip(STATES, (found.before, found.after), strict=True))
    low, high = limits = ratio_limits([side.ratio for _, side in sides], widest=5.0)
    records = [
        {
            "state": state,
            "period": period,
            "ratio": float(np.clip(side.ratio[i], low, high)),
            "low": float(np.clip(side.lower[i], low, high)),
            "high": float(np.clip(side.upper[i], low, high)),
            "pcoc": float(side.ratio[i]),
            "rows": float(side.sums.count[i]),
        }
        for state, side in sides
        for i, period in enumerate(found.periods)
        if np.isfinite(side.ratio[i])
    ]
    axis = alt.Axis(labelAngle=0, labelOverlap="greedy", labelSeparation=8, grid=False)
    x = alt.X("period:O", sort=list(found.periods), title=found.unit, axis=axis)
    scale = alt.Scale(type="log", domain=list(limits), nice=False)
    y_axis = alt.Axis(values=ratio_ticks(*limits), format="~g")
    colour = alt.Color("state:N", scale=state_scale(), sort=list(STATES))
    base = alt.Chart(data(records))
    one = alt.Chart(data([{"one": 1.0}])).mark_rule(color=MUTED, strokeWidth=1.2).encode(y="one:Q")
    band = base.mark_area(opacity=0.18).encode(
        x=x, y=alt.Y("low:Q", scale=scale, title="predicted / observed", axis=y_axis), y2="high:Q", color=colour
    )
    line = base.mark_line(strokeWidth=2).encode(x=x, y=alt.Y("ratio:Q", scale=scale, axis=y_axis), color=colour)
    dots = base.mark_point(filled=True, size=40, opacity=1).encode(
        x=x,
        y=alt.Y("ratio:Q", scale=scale, axis=y_axis),
        color=colour,
        shape=alt.Shape("state:N", scale=state_shapes(), sort=list(STATES)),
        tooltip=[
            alt.Tooltip("period:O", title=found.unit),
            alt.Tooltip("state:N", title=" "),
            alt.Tooltip("pcoc:Q", title="PCOC", format=".3f"),
            alt.Tooltip("rows:Q", title="rows", format=",.0f"),
        ],
    )
    return alt.layer(one, band, line, dots)
