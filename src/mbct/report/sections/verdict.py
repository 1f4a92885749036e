"""The head of the page: the verdict, what it means in three sentences, and the figures behind it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mbct.data.checks import leaps
from mbct.evaluation.diagnostics.field_bias import SegmentBias
from mbct.evaluation.metrics.evaluation import METRICS, OTHER
from mbct.report.page import change, number, same_decimals, text
from mbct.report.paired import PairedEstimate, Statistic
from mbct.report.scored import Scored
from mbct.report.sections import metrics
from mbct.report.sections.fields import FieldComparison

Outcome = Literal["better", "mixed", "worse", "unsure", "identity", "suspicious"]
BIAS = "overall bias"
_NEAR = 0.05  # Relative error that is called near


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


def statistics(scored: Scored) -> dict[str, Statistic]:
    """What the verdict weighs beside the metrics of the table, to be resampled; all classes together have no bias."""
    return {} if scored.classes else {BIAS: lambda rows: abs(float(METRICS["pcoc"](rows)) - 1.0)}


def compute(scored: Scored, estimates: Mapping[str, PairedEstimate], biased: Biased) -> Verdict:
    """Better or worse by the log loss, if the interval of its change excludes 0 and overall bias and ECE agree."""
    if np.array_equal(scored.before.y_prob, scored.after.y_prob):
        sentence = "The model leaves every prediction unchanged: it found no significant bias."
        return Verdict("identity", sentence)
    auc = estimates["auc"]
    if scored.leaks or (auc.known and leaps(auc.after, auc.before)):
        return Verdict("suspicious", _suspicion(scored, auc))
    log_loss, segments = estimates["log_loss"], _segments(biased)
    size = f"{abs(log_loss.change) / log_loss.before:.2%} ({number(log_loss.before)} → {number(log_loss.after)})"
    low, high = log_loss.change_interval
    if high < 0:
        worse = [name for name in (BIAS, "ece") if name in estimates and estimates[name].change_interval[0] > 0]
        if worse:
            how = "more biased overall" if BIAS in worse else "less calibrated"
            shown = {"PCOC": estimates.get("pcoc"), "ECE": estimates["ece"]}
            figures = ", ".join(
                f"{title} {change(v.before, v.after, 3)}" for title, v in shown.items() if v is not None
            )
            return Verdict("mixed", f"Mixed: log loss falls by {size}, but predictions are {how} ({figures}).")
        return Verdict("better", f"Calibration helps: log loss falls by {size}{segments}.")
    if low > 0:
        return Verdict("worse", f"Calibration hurts on these rows: log loss rises by {size}{segments}.")
    moved = "falls" if log_loss.change < 0 else "rises"
    return Verdict("unsure", f"No significant difference: log loss {moved} by {size}{segments}.")


def _suspicion(scored: Scored, auc: PairedEstimate) -> str:
    named = f"Suspected leak: {'; '.join(map(str, scored.leaks))}."
    asked = named if scored.leaks else "Was a column recorded after the outcome?"
    return f"Suspiciously good: AUC goes from {number(auc.before, 3)} to {number(auc.after, 3)}. {asked}"


def _segments(biased: Biased) -> str:
    if not biased.total:
        return ""
    moved = "fall" if biased.after < biased.before else "rise" if biased.after > biased.before else "stay"
    figures = f"at {biased.after}" if moved == "stay" else f"from {biased.before} to {biased.after}"
    return f", and significantly biased segments {moved} {figures} of {biased.total}"


def sentences(pcoc: PairedEstimate | None, fields: Sequence[FieldComparison]) -> list[str]:
    """Three sentences without a technical term: all rows, then the two segments where most positives were missed."""
    found = []
    if pcoc is not None and pcoc.known:
        first, last = _off(pcoc.before), _off(pcoc.after)
        found.append(
            f"Overall, predictions were {first}; {'they still are' if first == last else f'now they are {last}'}."
        )
    largest = [max(each.pairs(), key=_missed, default=None) for each in fields]
    chosen = sorted((pair for pair in largest if pair is not None and _missed(pair) > 0.0), key=_missed, reverse=True)
    for before, after in chosen[:2]:
        still = (
            "still " if after.significant and (after.ratio > 1) == (before.ratio > 1) and _is_far(after.ratio) else ""
        )
        found.append(
            f"{before.field} = {before.segment} ({before.count:,.0f} rows) was predicted {_off(before.ratio)}; "
            f"now {still}{_off(after.ratio)}."
        )
    return found


def _missed(pair: tuple[SegmentBias, SegmentBias]) -> float:
    """Positives by which predictions of a value were off; 0 where that may be noise, or is of several values."""
    before, _ = pair
    if not before.significant or before.segment.startswith(OTHER) or not _is_far(before.ratio):
        return 0.0
    return before.count * abs(before.mean_prediction - before.label_rate)


def _is_far(ratio: float) -> bool:
    return not abs(ratio - 1.0) < _NEAR


def _off(ratio: float) -> str:
    """How far predictions are from what happened, in words.

    >>> _off(1.45), _off(0.97), _off(4.2), _off(1.0), _off(math.inf)
    ('45 % too high', 'within 3 %', '4.2 times too high', 'within 1 %', 'far too high')
    """
    if not math.isfinite(ratio) or ratio <= 0.0:
        return "far too high" if ratio > 1 else "far too low"
    if not _is_far(ratio):
        return f"within {max(math.ceil(round(abs(ratio - 1.0) * 100, 6)), 1)} %"
    if ratio > 3.0:
        return f"{ratio:.1f} times too high"
    return f"{abs(ratio - 1.0) * 100:.0f} % too {'high' if ratio > 1 else 'low'}"


def render(
    verdict: Verdict, plain: Sequence[str], scored: Scored, estimates: Mapping[str, PairedEstimate], biased: Biased
) -> str:
    """The verdict, the sentences and a row of tiles."""
    weight = float(scored.before.weight.sum()) / max(len(scored.classes), 1)
    rate = float(np.average(scored.before.y_true, weights=scored.before.weight))
    weighted = f"weight {number(weight)}, " if abs(weight - scored.n_rows) > 1e-9 * weight else ""
    kinds = f"{len(scored.classes)} classes" if scored.classes else f"label rate {number(rate, 3)}"
    size = f"<small>{text(weighted + kinds)}</small>"
    tiles = [_tile("rows", "rows that were evaluated", f"{scored.n_rows:,}", size)]
    for name, digits in (("log_loss", 4), ("pcoc", 3), ("ece", 3), ("auc", 4)):
        if name not in estimates:
            continue
        _, title, better, meaning = next(each for each in metrics.SHOWN if each[0] == name)
        found = estimates[name]
        below = f"{metrics.mark(found, better)}<small>{text(_moved(found))}</small>"
        tiles.append(_tile(title, meaning, change(found.before, found.after, digits), below))
    if biased.total:
        state = "better" if biased.after < biased.before else "worse" if biased.after > biased.before else "unchanged"
        meaning = "values of columns whose predictions are significantly too high or too low"
        below = f"{metrics.badge(state)}<small>of {biased.total}</small>"
        tiles.append(_tile("biased segments", meaning, f"{biased.before} → {biased.after}", below))
    listed = "".join(f"<li>{text(each)}</li>" for each in plain)
    return (
        f'<p class="verdict {verdict.outcome}">{text(verdict.sentence)}</p><ul class="plain">{listed}</ul>'
        f'<dl class="tiles">{"".join(tiles)}</dl>'
    )


def _tile(title: str, meaning: str, value: str, below: str) -> str:
    return (
        f'<div class="tile" title="{text(meaning)}" tabindex="0"><dt>{text(title)}</dt>'
        f"<dd>{text(value)}{below}</dd></div>"
    )


def _moved(found: PairedEstimate) -> str:
    known = np.isfinite(found.change_interval[0])
    return f"change {' to '.join(same_decimals(found.change_interval, 2))}" if known else "unknown here"
