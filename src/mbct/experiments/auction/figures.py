"""Figures of the auction."""

from pathlib import Path
from typing import Any, get_args

from mbct.experiments.auction.auction import Pricing
from mbct.experiments.auction.measure import KINDS
from mbct.experiments.auction.policies import TITLES
from mbct.experiments.auction.results import RATIOS, by_pricing, daily
from mbct.experiments.canvas import COLOURS, figure

_STYLES = {"none": "grey", "isotonic": "blue", "mbct": "orange", "mbct-default": "red", "truth": "green"}
_PANELS = {"tce": "true calibration error", "candidate_auc": "AUC, all candidates", "ctr": "CTR", "ecpm": "eCPM"}
_OUTCOMES = {"ctr": "CTR", "ecpm": "eCPM", "surplus": "advertisers' surplus"}
_KIND_TITLES = {"segment": "error by segment", "common": "error common to all ads"}


def draw_days(path: Path, tests: list[dict[str, Any]], pricing: str) -> None:
    """Each bucket by day, mean over markets."""
    with figure(path, 2, 2, (9.0, 5.4), sharex=True) as (drawn, axes):
        for axis, (metric, title) in zip(axes.flat, _PANELS.items(), strict=True):
            for name, colour in _STYLES.items():
                values = daily(tests, name, metric)
                style = "--" if name == "truth" else "-"
                days = range(1, len(values) + 1)
                axis.plot(days, values, color=COLOURS[colour], ls=style, marker="o", ms=3, label=TITLES[name])
            axis.set_title(title)
        for axis in axes[-1]:
            axis.set_xlabel("day")
            axis.set_xticks(range(1, len(values) + 1, max(len(values) // 7, 1)))
        handles, labels = axes[0, 0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=3)
        drawn.suptitle(
            f"Simulated buckets by day, {pricing} auction (mean of {len(tests)} market{'s' * (len(tests) > 1)})"
        )


def draw_sweep(path: Path, results: dict[str, dict[str, Any]]) -> None:
    """Outcome relative to ranking by the truth, against the calibration error."""
    pricings = get_args(Pricing)
    with figure(path, len(pricings), len(_OUTCOMES), (9.5, 5.4), sharex=True) as (drawn, axes):
        for row, pricing in zip(axes, pricings, strict=True):
            sweeps = by_pricing(results, "sweep", pricing)
            for axis, (metric, title) in zip(row, _OUTCOMES.items(), strict=True):
                for kind, colour in zip(KINDS, ("orange", "blue"), strict=True):
                    _draw_kind(axis, sweeps, kind, metric, COLOURS[colour])
                axis.axhline(0.0, color="black", lw=0.8)
                axis.set_title(f"{title}, {pricing}")
            row[0].set_ylabel("% against ranking by the truth")
        for axis in axes[-1]:
            axis.set_xlabel("true calibration error (p = 2)")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=2)


def _draw_kind(axis: Any, sweeps: list[dict[str, Any]], kind: str, metric: str, colour: str) -> None:
    ratio = RATIOS[metric]
    errors, changes = [], []
    for sweep in sweeps:
        best = ratio(sweep["truth"])
        error = [point["tce"] for point in sweep[kind]]
        change = [100.0 * (ratio(point) / best - 1.0) for point in sweep[kind]]
        axis.plot(error, change, color=colour, lw=0.6, alpha=0.35)
        errors.append(error)
        changes.append(change)
    n = len(sweeps)
    middle = [sum(column) / n for column in zip(*errors, strict=True)]
    mean = [sum(column) / n for column in zip(*changes, strict=True)]
    axis.plot(middle, mean, color=colour, marker="o", ms=4, lw=1.8, label=_KIND_TITLES[kind])
