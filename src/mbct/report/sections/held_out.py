"""Part of a chapter: what held-out rows gained when the model was fitted, fold by fold."""

from typing import Any

from mbct.calibrators.base import Calibrator
from mbct.calibrators.fitted_mbct import FittedMBCT, describe_gain, kind_of_folds
from mbct.report.charts import AFTER, altair, chart, figure, line_at, tooltip, upright_axis
from mbct.report.page import text

_HEIGHT = 120


def render(calibrator: Calibrator) -> str:
    """The fall of the held-out log loss in a line, and a chart of its folds; nothing where it is unknown."""
    if not isinstance(calibrator, FittedMBCT) or calibrator.held_out_gain_ is None:
        return ""
    line = f'<p class="note">Held-out log loss at the fit: {text(describe_gain(calibrator))}.</p>'
    by_fold = calibrator.held_out_gain_by_fold_ or []
    if not any(by_fold):
        return line
    kind = kind_of_folds(calibrator)
    drawn = _chart(by_fold, calibrator.held_out_gain_, calibrator.held_out_gain_error_ or 0.0, kind)
    what = f"Fall of the held-out log loss in each of {len(by_fold)} {kind}, and their mean"
    caption = "Fall of the log loss on rows held out at the fit; the line is the mean, the band one standard error."
    return line + figure("held-out", drawn, what, height=_HEIGHT, caption=caption)


def _chart(by_fold: list[float], mean: float, error: float, kind: str) -> Any:
    alt = altair()
    folds = [{"fold": i, "gain": gain} for i, gain in enumerate(by_fold, start=1)]
    y = alt.Y("gain:Q", title=None, scale=alt.Scale(padding=8), axis=alt.Axis(tickCount=4, format="~g"))
    band = chart([{"gain": mean - error, "high": mean + error}]).mark_rect(color=AFTER, opacity=0.18)
    line = chart([{"gain": mean}]).mark_rule(color=AFTER, strokeWidth=1.5)
    title = f"{kind}, first to last" if kind == "stretches of time" else kind
    dots = chart(folds).mark_point(filled=True, size=70, color=AFTER, opacity=1)
    return alt.layer(
        line_at(y=0.0),
        band.encode(y=y, y2="high:Q"),
        line.encode(y=y),
        dots.encode(
            x=alt.X("fold:O", title=title, axis=upright_axis()),
            y=y,
            tooltip=tooltip({"fold": "fold:O", "fall of the log loss": "gain:Q .5f"}),
        ),
    )
