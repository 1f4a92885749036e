"""Charts as Vega-Lite, built by altair and drawn by one shared copy of the Vega libraries.

Colours are the page's CSS variables: the same picture turns dark or light, or prints, without being drawn again.
"""

import json
import math
from typing import Any

import numpy as np

from mbct.evaluation.diagnostics.subgroups import ratio_ticks
from mbct.lazy import optional
from mbct.report.page import text

BEFORE, AFTER = "var(--before)", "var(--after)"
INK, MUTED, GRID, CARD = "var(--ink)", "var(--muted)", "var(--grid)", "var(--card)"
STATES = ("before", "after")
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"


def altair() -> Any:
    """The library, or one clear error."""
    # The absence of vl_convert would show only when the page is written.
    return optional("a report needs altair and vl-convert: pip install 'mbct[report]'", "altair", "vl_convert")


def library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, made safe to stand inside the page."""
    import vl_convert

    bundle: Any = vl_convert.javascript_bundle  # its stub asks for an argument that has a default
    return str(bundle()).replace("</script", "<\\/script").replace("<!--", "<\\!--")


def records(**columns: Any) -> list[dict[str, Any]]:
    """Columns as records; a single value stands in each of them.

    >>> records(state="before", ratio=np.array([0.5, 2.0]))
    [{'state': 'before', 'ratio': 0.5}, {'state': 'before', 'ratio': 2.0}]
    """
    listed = np.broadcast_arrays(*(np.asarray(column) for column in columns.values()))
    return [
        dict(zip(columns, row, strict=True)) for row in zip(*(each.ravel().tolist() for each in listed), strict=True)
    ]


def chart(shown: list[dict[str, Any]]) -> Any:
    """A chart of records, with six significant digits and no infinities."""
    alt = altair()
    # As one text until the chart is finished: altair would copy and check every record for each layer.
    values = json.dumps([{key: _plain(value) for key, value in each.items()} for each in shown])
    return alt.Chart(alt.Data(values=values))


def tooltip(shown: dict[str, str]) -> list[Any]:
    """What the pointer shows: titles, and for each a field with its format, such as ``ratio:Q .3f``."""
    alt = altair()
    fields = {title: field.partition(" ") for title, field in shown.items()}
    return [alt.Tooltip(f, title=title, **({"format": form} if form else {})) for title, (f, _, form) in fields.items()]


def line_at(**where: float) -> Any:
    """A thin line at ``x`` or ``y``: where predictions are right."""
    ((axis, value),) = where.items()
    return chart([{"at": value}]).mark_rule(color=MUTED, strokeWidth=1.2).encode(**{axis: "at:Q"})


def ratio_axis(limits: tuple[float, float]) -> dict[str, Any]:
    """Scale and axis of a ratio: logarithmic, with plain numbers."""
    alt = altair()
    scale = alt.Scale(type="log", domain=list(limits), nice=False)
    return {"scale": scale, "axis": alt.Axis(values=ratio_ticks(*limits), format="~g")}


def upright_axis(**options: Any) -> Any:
    """An axis of names or numbers in order, without a grid, whose labels stand upright and may be left out."""
    return altair().Axis(**{"labelAngle": 0, "labelOverlap": True, "labelSeparation": 4, "grid": False, **options})


def state_colour(channel: str = "Color", **options: Any) -> Any:
    """Colours of before and after."""
    alt = altair()
    scale = alt.Scale(domain=list(STATES), range=[BEFORE, AFTER])
    return getattr(alt, channel)("state:N", scale=scale, sort=list(STATES), **options)


def state_shape(**options: Any) -> Any:
    """Shapes of before and after, for those who see no colours."""
    alt = altair()
    scale = alt.Scale(domain=list(STATES), range=["circle", "diamond"])
    return alt.Shape("state:N", scale=scale, sort=list(STATES), **options)


def figure(name: str, drawn: Any, description: str, *, height: int | None = None, caption: str = "") -> str:
    """A frame for one chart as wide as its place, with its specification beside it."""
    axis = {"labelColor": MUTED, "titleColor": MUTED, "domainColor": GRID, "tickColor": GRID, "gridColor": GRID}
    sizes = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "titlePadding": 8}
    legend = {"labelColor": INK, "titleColor": MUTED, "labelFontSize": 12, "orient": "top", "offset": 6}
    legend |= {"title": None, "symbolOpacity": 1}
    finished = drawn.properties(
        width="container",
        **({} if height is None else {"height": height}),
        description=description,
        name=name,
        autosize={"type": "fit-x", "contains": "padding"},
        background="transparent",
        config={"font": FONT, "view": {"stroke": None}, "axis": {**axis, **sizes}, "legend": legend},
    )
    drawn = finished.to_dict(validate=True)
    for each in (drawn, *drawn.get("layer", ())):
        if "data" in each:
            each["data"]["values"] = json.loads(each["data"]["values"])
    specification = json.dumps(drawn, sort_keys=True, allow_nan=False, ensure_ascii=False)
    safe = specification.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    below = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    return (
        f'<figure><div class="chart" id="chart-{name}" role="img" aria-label="{text(description)}"></div>'
        f'<script type="application/json" data-chart="chart-{name}">{safe}</script>{below}</figure>'
    )


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
