"""Chapter: predicted over observed positives through time, before and after."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mbct.evaluation.diagnostics.field_bias import GroupColumns, group_columns
from mbct.evaluation.diagnostics.subgroups import ratio_limits
from mbct.evaluation.metrics.rows import Segmentation
from mbct.report.charts import (
    STATES,
    altair,
    chart,
    figure,
    line_at,
    ratio_axis,
    records,
    state_colour,
    state_shape,
    tooltip,
    upright_axis,
)
from mbct.report.page import Section
from mbct.report.scored import Scored

_UNITS = ((45, "day", "D"), (400, "week", "W"), (1800, "month", "M"))  # Longest span in days of each unit; years beyond
_MOST_NUMBERS = 60  # Whole numbers are periods themselves up to so many; more are cut into stretches


def section(scored: Scored) -> Section | None:
    """PCOC of every period in one chart; None where no time is known, or only one period."""
    if scored.time is None:
        return None
    periods = periods_of(scored.time)
    if len(periods) < 2:
        return None
    unit = periods.name
    lead = (
        f"Predicted over observed positives (PCOC) of each {unit}: 1 is right, below 1 predictions are too low. "
        f"Bands are 95 % intervals of the label rate within the {unit}, from its rows one by one: what {unit}s have in "
        "common is what the chart shows. A drift after the model was fitted asks for a refit."
    )
    alone = (replace(rows, blocks=None) for rows in (scored.before, scored.after))
    sides = [group_columns(rows, periods, 0.95) for rows in alone]
    drawn = _chart(unit, np.array(periods.labels), sides)
    chart_of_time = figure("time", drawn, f"PCOC of each {unit} before and after calibration", height=240)
    return Section("time", "Through time", lead, chart_of_time)


def periods_of(time: npt.NDArray[Any]) -> Segmentation:
    """Periods of the rows in order; its name is their unit.

    >>> found = periods_of(np.array(["2024-01-31T10", "2024-02-01T11"], dtype="datetime64[h]"))
    >>> found.name, found.codes.tolist(), found.labels
    ('day', [0, 1], ('2024-01-31', '2024-02-01'))
    """
    if time.dtype.kind != "M":
        values, codes = np.unique(time, return_inverse=True)
        if len(values) > _MOST_NUMBERS:
            edges = np.unique(np.quantile(time, np.arange(1, _MOST_NUMBERS) / _MOST_NUMBERS, method="inverted_cdf"))
            values, codes = np.unique(np.searchsorted(edges, time, side="left"), return_inverse=True)
            return Segmentation("stretch", codes.astype(np.int64), tuple(f"{value + 1}" for value in values))
        return Segmentation("period", codes.astype(np.int64), tuple(f"{value:g}" for value in values))
    days = time.astype("datetime64[D]")
    span = int((days.max() - days.min()).astype(np.int64)) + 1
    name, code = next(((name, code) for longest, name, code in _UNITS if span <= longest), ("year", "Y"))
    shift = 4 if code == "W" else 0  # numpy's weeks begin on Thursdays, ours on Mondays
    periods, codes = np.unique((days - shift).astype(f"datetime64[{code}]"), return_inverse=True)
    shown = periods.astype("datetime64[D]") + shift if code in "DW" else periods
    return Segmentation(name, codes.astype(np.int64), tuple(map(str, shown)))


def _chart(unit: str, periods: npt.NDArray[np.str_], sides: list[GroupColumns]) -> Any:
    alt = altair()
    limits = ratio_limits([side.ratio for side in sides], widest=5.0)
    shown = []
    for state, side in zip(STATES, sides, strict=True):
        known = np.isfinite(side.ratio)
        ratio, low, high = (np.clip(each[known], *limits) for each in (side.ratio, side.lower, side.upper))
        rest = {"pcoc": side.ratio[known], "rows": side.sums.count[known]}
        shown += records(state=state, period=periods[known], ratio=ratio, low=low, high=high, **rest)
    x = alt.X(
        "period:O", sort=periods.tolist(), title=unit, axis=upright_axis(labelOverlap="greedy", labelSeparation=8)
    )
    y = alt.Y("ratio:Q", **ratio_axis(limits))
    base = chart(shown).encode(x=x, color=state_colour())
    band = base.mark_area(opacity=0.18).encode(
        y=alt.Y("low:Q", title="predicted / observed", **ratio_axis(limits)), y2="high:Q"
    )
    tips = {unit: "period:O", " ": "state:N", "PCOC": "pcoc:Q .3f", "rows": "rows:Q ,.0f"}
    dots = base.mark_point(filled=True, size=40, opacity=1).encode(y=y, shape=state_shape(), tooltip=tooltip(tips))
    return alt.layer(line_at(y=1.0), band, base.mark_line(strokeWidth=2).encode(y=y), dots)
