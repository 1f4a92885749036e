"""Chapter: every metric before and after, with intervals."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from mbct.evaluation.metrics.evaluation import METRICS
from mbct.evaluation.metrics.rows import Rows
from mbct.report.page import Column, Section, interval, number, table, text
from mbct.report.paired import PairedEstimate, Statistic

SHOWN: tuple[tuple[str, str, int, str], ...] = (
    ("log_loss", "Log loss", -1, "the mean surprise at what happened"),
    ("normalised_entropy", "Normalised entropy", -1, "log loss relative to always predicting the label rate"),
    ("brier", "Brier score", -1, "mean squared error"),
    ("miscalibration", "· miscalibration", -1, "the part of Brier that recalibration could remove"),
    ("discrimination", "· discrimination", 1, "the part of Brier that tells positives from negatives"),
    (
        "log_loss_miscalibration",
        "Log loss · miscalibration",
        -1,
        "the part of log loss that recalibration could remove",
    ),
    ("auc", "AUC", 1, "how well positives are ranked above negatives"),
    ("pcoc", "PCOC", 0, "predicted / observed positives, 1 is right"),
    ("ece", "ECE", -1, "mean gap over 15 bins of equal size"),
    ("mce", "MCE", -1, "largest gap of these bins"),
    ("ece_sweep", "ECE sweep", -1, "as many bins as keep the rates in order"),
    ("debiased_ece", "Debiased ECE", -1, "2-norm, less what label noise adds"),
    ("smooth_ece", "Smooth ECE", -1, "kernel instead of bins"),
    ("ecce", "ECCE", -1, "range of the cumulated gap, no bins"),
    ("ici", "ICI", -1, "mean distance to a smooth calibration curve"),
    ("e90", "E90", -1, "distance to that curve that nine rows in ten keep below"),
    ("net_benefit", "Net benefit", 1, "of acting from the label rate on; 0 for acting on all or on none"),
    ("mvce", "MVCE", -1, "the paper's, over all shuffles: mostly noise, see the views"),
    ("cal_n", "Cal-N", -1, "relative gap over 100 blocks"),
)
"""Name in ``METRICS``, title, which way is better (0: nearer to 1), and what it is."""


OF_CLASSES = ("log_loss", "brier", "miscalibration", "discrimination", "auc", "ece", "smooth_ece", "ecce")
"""Those that make sense of classes against the rest, all together."""
_SUMMED = ("brier", "miscalibration", "discrimination")


def statistics(n_classes: int = 0) -> dict[str, Statistic]:
    """The metrics to be resampled; of ``n_classes`` that stand one below the other those of all together."""
    if not n_classes:
        return {name: METRICS[name] for name, *_ in SHOWN}
    found = {name: METRICS[name] for name in OF_CLASSES}
    # A mean over rows and classes is a K-th of the sum over classes that the Brier score of many is.
    found |= {name: partial(_times, n_classes, name) for name in _SUMMED}
    return {**found, "log_loss": partial(_class_log_loss, n_classes)}


def _times(n_classes: int, name: str, rows: Rows) -> float:
    return n_classes * METRICS[name](rows)


def _class_log_loss(n_classes: int, rows: Rows) -> float:
    """−ln p of each row's own class, which is the one row in K whose label is 1."""
    surprise = -np.log(np.clip(rows.y_prob, np.finfo(np.float64).eps, 1.0))
    return n_classes * float(np.average(rows.y_true * surprise, weights=rows.weight))


def render(estimates: Mapping[str, PairedEstimate], n_resamples: int, *, in_blocks: bool) -> Section:
    """One line a metric; a change whose interval leaves out 0 is marked."""
    columns = (
        Column("metric", number=False),
        Column("before"),
        Column("after"),
        Column("change", hint="after less before, on the same resamples"),
    )
    lines = []
    for name, title, better, meaning in SHOWN:
        if name not in estimates:
            continue
        found = estimates[name]
        lines.append(
            [
                f"<b>{text(title)}</b> {mark(found, better)}<br><small>{text(meaning)}</small>",
                f"{number(found.before)}<br>{interval(found.before_interval)}",
                f"{number(found.after)}<br>{interval(found.after_interval)}",
                f"{'+' if found.change > 0 else ''}{number(found.change, 3)}<br>{interval(found.change_interval)}",
            ]
        )
    drawn = "whole blocks" if in_blocks else "rows"
    lead = (
        f"Small figures are 95 % intervals (basic bootstrap, {n_resamples} resamples of {drawn}, the same for before "
        "and after). A calibration error is above 0 even for right predictions; its interval allows for that."
    )
    return Section("metrics", "All metrics", lead, table(columns, lines, label="metrics"), folded=True)


def mark(found: PairedEstimate, better: int) -> str:
    """Whether a metric got better or worse; unchanged where the interval of the change holds 0."""
    low, high = found.change_interval
    if not found.known or not (low > 0 or high < 0):
        return badge("unchanged")
    gain = abs(found.after - 1) < abs(found.before - 1) if better == 0 else (found.change > 0) == (better > 0)
    return badge("better" if gain else "worse")


def badge(state: str) -> str:
    """The word, coloured."""
    colour = {"better": " good", "worse": " bad"}.get(state, "")
    return f'<span class="badge{colour}">{state}</span>'
