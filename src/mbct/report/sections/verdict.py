"""The verdict in one sentence, and the figures that carry it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mbct.report.page import change, number, same_decimals, text
from mbct.report.paired import PairedEstimate
from mbct.report.scored import Scored

Outcome = Literal["better", "worse", "unsure", "identity"]


@dataclass(frozen=True)
class Verdict:
    """What the calibration did to these rows."""

    outcome: Outcome
    sentence: str


@dataclass(frozen=True)
class Biased:
    """How many segments are significantly biased."""

    before: int
    after: int
    total: int


def compute(scored: Scored, log_loss: PairedEstimate, biased: Biased) -> Verdict:
    """By the log loss: the interval of its change must exclude 0."""
    if np.array_equal(scored.before.y_prob, scored.after.y_prob):
        sentence = "The model leaves every prediction unchanged: it found no significant bias."
        return Verdict("identity", sentence)
    size = f"{abs(log_loss.change) / log_loss.before:.2%} ({number(log_loss.before)} → {number(log_loss.after)})"
    segments = _segments(biased)
    low, high = log_loss.change_interval
    if high < 0:
        return Verdict("better", f"Calibration helps: log loss falls by {size}{segments}.")
    if low > 0:
        return Verdict("worse", f"Calibration hurts on these rows: log loss rises by {size}{segments}.")
    moved = "falls" if log_loss.change < 0 else "rises"
    return Verdict("unsure", f"No significant difference: log loss {moved} by {size}{segments}.")


def _segments(biased: Biased) -> str:
    if not biased.total:
        return ""
    moved = "fall" if biased.after < biased.before else "rise" if biased.after > biased.before else "stay"
    figures = f"at {biased.after}" if moved == "stay" else f"from {biased.before} to {biased.after}"
    return f", and significantly biased segments {moved} {figures} of {biased.total}"


def render(verdict: Verdict, scored: Scored, estimates: dict[str, PairedEstimate], biased: Biased) -> str:
    """The sentence and a row of tiles."""
    weight = float(scored.before.weight.sum())
    rate = float(np.average(scored.before.y_true, weights=scored.before.weight))
    weighted = f"weight {number(weight)}, " if abs(weight - scored.n_rows) > 1e-9 * weight else ""
    tiles = [
        ("rows", f"{scored.n_rows:,}", f"{weighted}label rate {number(rate, 3)}"),
        _tile("log loss", estimates["log_loss"]),
        _tile("PCOC", estimates["pcoc"], digits=3),
        _tile("ECE", estimates["ece"], digits=3),
        _tile("AUC", estimates["auc"]),
    ]
    if biased.total:
        tiles.append(("biased segments", f"{biased.before} → {biased.after}", f"of {biased.total}, significantly"))
    shown = "".join(
        f'<div class="tile"><dt>{text(title)}</dt><dd>{text(value)}<small>{text(note)}</small></dd></div>'
        for title, value, note in tiles
    )
    return f'<p class="verdict {verdict.outcome}">{text(verdict.sentence)}</p><dl class="tiles">{shown}</dl>'


def _tile(title: str, found: PairedEstimate, digits: int = 4) -> tuple[str, str, str]:
    low, high = found.change_interval
    moved = f"change {' to '.join(same_decimals((low, high), 2))}" if np.isfinite(low) else "unknown here"
    return title, change(found.before, found.after, digits), moved
