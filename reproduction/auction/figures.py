"""Figures of the auction."""

from pathlib import Path
from typing import Any, get_args

from reproduction.auction.auction import Pricing
from reproduction.auction.measure import KINDS
from reproduction.auction.policies import TITLES
from reproduction.auction.results import HEADINGS, by_pricing, cost_of_error, daily
from reproduction.canvas import COLOURS, figure
from reproduction.parts import Finished
from reproduction.spread import spread

_STYLES = {"none": "grey", "isotonic": "blue", "mbct": "orange", "mbct-default": "red", "truth": "green"}
_PANELS = {
    "tce": "true calibration error",
    "auc": "AUC, shown ads",
    "ctr": "CTR",
    "ecpm": "eCPM",
    "revenue": "revenue",
    "surplus": "advertisers' surplus",
}
OUTCOMES = ("auc", "ctr", "ecpm", "revenue", "surplus")
KIND_TITLES = {"segment": "error by segment", "common": "error common to all ads"}


def draw_days(path: Path, tests: list[dict[str, Any]], pricing: str) -> None:
    """Each bucket by day, mean over markets."""
    with figure(path, 2, 3, (10.5, 5.6), sharex=True) as (drawn, axes):
        for axis, (metric, title) in zip(axes.flat, _PANELS.items(), strict=True):
            for name, colour in _STYLES.items():
                values = daily(tests, name, metric)
                style = "--" if name == "truth" else "-"
                days = range(1, len(values) + 1)
                axis.plot(days, values, color=COLOURS[colour], ls=style, lw=1.3, marker="o", ms=2.5, label=TITLES[name])
            axis.set_title(title)
        for axis in axes[-1]:
            axis.set_xlabel("day")
            axis.set_xticks(range(1, len(values) + 1, max(len(values) // 7, 1)))
        handles, labels = axes[0, 0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=5)
        markets = "one market" if len(tests) == 1 else f"mean of {len(tests)} markets"
        drawn.suptitle(f"Simulated buckets by day, {pricing} auction ({markets})")


def draw_sweep(path: Path, finished: dict[str, Finished]) -> None:
    """Outcome relative to ranking by the truth, against the calibration error."""
    pricings = get_args(Pricing)
    with figure(path, len(pricings), len(OUTCOMES), (12.5, 5.6), sharex=True) as (drawn, axes):
        for row, pricing in zip(axes, pricings, strict=True):
            sweeps = by_pricing(finished, "sweep", pricing)
            for axis, metric in zip(row, OUTCOMES, strict=True):
                for kind, colour in zip(KINDS, ("orange", "blue"), strict=True):
                    _draw_kind(axis, sweeps, kind, metric, COLOURS[colour])
                axis.axhline(0.0, color="black", lw=0.8)
                axis.set_title(HEADINGS[metric])
            row[0].set_ylabel(f"{pricing}\n% against ranking by the truth")
        for axis in axes[-1]:
            axis.set_xlabel("true calibration error (p = 2)")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=2)


def _draw_kind(axis: Any, sweeps: list[dict[str, Any]], kind: str, metric: str, colour: str) -> None:
    scales = range(len(sweeps[0][kind]))
    errors = [spread([sweep[kind][i]["tce"] for sweep in sweeps]).mean for i in scales]
    costs = [cost_of_error(sweeps, kind, i, metric) for i in scales]
    middle = [100.0 * cost.mean for cost in costs]
    axis.plot(errors, middle, color=colour, marker="o", ms=3.5, lw=1.6, label=KIND_TITLES[kind])
    if len(sweeps) > 1:
        half = [100.0 * cost.half_width for cost in costs]
        low = [m - h for m, h in zip(middle, half, strict=True)]
        high = [m + h for m, h in zip(middle, half, strict=True)]
        axis.fill_between(errors, low, high, color=colour, alpha=0.15, lw=0)
