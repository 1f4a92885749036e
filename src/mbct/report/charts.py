"""Charts as Vega-Lite, built by altair and drawn by one shared copy of the Vega libraries.

Colours are the page's CSS variables: the same picture turns dark or light, or prints, without being drawn again.
"""

import json
import math
from importlib import import_module
from typing import Any

from mbct.errors import MissingDependencyError
from mbct.report.page import text

BEFORE, AFTER = "var(--before)", "var(--after)"
INK, MUTED, GRID, CARD = "var(--ink)", "var(--muted)", "var(--grid)", "var(--card)"
STATES = ("before", "after")
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"


def altair() -> Any:
    """The library, or one clear error."""
    try:
        import altair as alt

        import_module("vl_convert")  # its absence would show only when the page is written
    except ImportError as error:
        raise MissingDependencyError("a report needs altair and vl-convert: pip install 'mbct[report]'") from error
    return alt


def library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, made safe to stand inside the page."""
    import vl_convert

    bundle: Any = vl_convert.javascript_bundle  # its stub asks for an argument that has a default
    return str(bundle()).replace("</script", "<\\/script").replace("<!--", "<\\!--")


def data(records: list[dict[str, Any]]) -> Any:
    """Inline data: six significant digits, no infinities."""
    return altair().Data(values=[{key: _plain(value) for key, value in record.items()} for record in records])


def state_scale() -> Any:
    """Colours of before and after."""
    return altair().Scale(domain=list(STATES), range=[BEFORE, AFTER])


def state_shapes() -> Any:
    """Shapes of before and after, for those who see no colours."""
    return altair().Scale(domain=list(STATES), range=["circle", "diamond"])


def figure(name: str, chart: Any, description: str, *, height: int | None = None, caption: str = "") -> str:
    """A frame for one chart as wide as its place, with its specification beside it."""
    finished = _dressed(chart.properties(width="container", description=description, name=name), height)
    specification = json.dumps(finished.to_dict(validate=True), sort_keys=True, allow_nan=False, ensure_ascii=False)
    safe = specification.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    below = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    return (
        f'<figure><div class="chart" id="chart-{name}" role="img" aria-label="{text(description)}"></div>'
        f'<script type="application/json" data-chart="chart-{name}">{safe}</script>{below}</figure>'
    )


def _dressed(chart: Any, height: int | None) -> Any:
    chart = chart if height is None else chart.properties(height=height)
    axis = {"labelColor": MUTED, "titleColor": MUTED, "domainColor": GRID, "tickColor": GRID, "gridColor": GRID}
    sizes = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "titlePadding": 8}
    return (
        chart.properties(autosize={"type": "fit-x", "contains": "padding"}, background="transparent")
        .configure(font=FONT)
        .configure_view(stroke=None)
        .configure_axis(**axis, **sizes)
        .configure_legend(
            labelColor=INK, titleColor=MUTED, labelFontSize=12, orient="top", title=None, offset=6, symbolOpacity=1
        )
    )


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
