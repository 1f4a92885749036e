"""The README's section on the auction."""

from pathlib import Path
from typing import Any, get_args

from reproduction import printed
from reproduction.auction.auction import RESERVE, SHADING, Pricing
from reproduction.auction.figures import KIND_TITLES, OUTCOMES, draw_days, draw_sweep
from reproduction.auction.measure import KINDS, SCALES
from reproduction.auction.policies import TITLES
from reproduction.auction.results import HEADINGS, RATIOS, by_pricing, cost_of_error, lift, mean_of_days
from reproduction.markdown import signed_percent, table
from reproduction.parts import Finished, write
from reproduction.spread import Spread, spread

_LEAST_MARKETS = 4
_DEPLOYED = ("mbct", "mbct-default")
_SHOWN_SCALES = (0.0, 1.0, 2.0)


def report(finished: dict[str, Finished], out: Path) -> str:
    """Draw the figures, write the tables, return the section."""
    settings = next(part.parameters for name, part in finished.items() if name.startswith("test-"))
    every = {pricing: by_pricing(finished, "test", pricing) for pricing in get_args(Pricing)}
    sections = [_introduction(), _setting(settings, every)]
    for pricing, tests in every.items():
        text = _table(tests)
        write(out / "tables" / f"auction-{pricing}.md", text + "\n")
        draw_days(out / "figures" / f"auction-days-{pricing}.svg", tests, pricing)
        sections.append(
            f"### {pricing.capitalize()} auction\n\n{text}\n\n{_words(tests)}\n\n"
            f"![Buckets by day, {pricing}](figures/auction-days-{pricing}.svg)"
        )
    draw_sweep(out / "figures" / "auction-error.svg", finished)
    sweep = _sweep_table(finished)
    write(out / "tables" / "auction-error.md", sweep + "\n")
    n_markets = len(next(iter(every.values())))
    return "\n\n".join([*sections, _sweep_words(sweep, n_markets)])


def _introduction() -> str:
    return (
        "## 4. The online test, simulated (Section 5.6)\n\n"
        "**This is a simulation.** The paper's test ran on live traffic that nobody else has; here a market is "
        "drawn at random and nothing in it was fitted to the paper's numbers, so only directions can be compared, "
        "not sizes."
    )


def _setting(settings: dict[str, Any], every: dict[str, list[dict[str, Any]]]) -> str:
    tests = [test for found in every.values() for test in found]
    exhausted = mean_of_days(tests, "none", "exhausted").mean
    refreshes = [decision for test in tests for name in _DEPLOYED for decision in test["refreshes"][name]]
    promoted = sum(decision["decision"] == "promoted" for decision in refreshes)
    n_markets = len(tests) // len(every)
    return (
        f"What it assumes: {settings['candidates']} of {settings['advertisers']} advertisers compete for each page "
        "view; the ad with the highest bid × pCTR is shown, an advertiser pays for clicks only and takes part while "
        f"the day's budget covers the bid ({exhausted:.0%} of budgets are spent before the day ends in bucket A); in "
        "the second-price auction advertisers bid a click's value and pay the least bid that would have won, in the "
        f"first-price auction they bid {SHADING:.0%} of the value and pay it (reserve {RESERVE:.2f}); bids do not "
        "react to the calibration. True click rates depend on ad, device × category, age × category, area and slot, "
        "and drift daily. The base predictor knows the first day's world with noise, one error common to all ads, and "
        "one for each pair of device and category.\n\n"
        f"{n_markets} market{'s' * (n_markets > 1)}, {settings['days']} days, {settings['views']:,} page views a day "
        f"in each bucket. Every night the log of {settings['rest_views']:,} other page views, ranked by the base, is "
        f"learnt: the last {settings['window_days']} days, fading with a half-life of "
        f"{settings['half_life_days']:g} days. B refits isotonic regression on the rows. C and D go the way of "
        "production: the log becomes cells in a `CellStore`, `refresh` refits from the cells of the days before the "
        f"newest and promotes the model unless the newest day speaks against it ({promoted} of {len(refreshes)} "
        "refreshes promoted), and the model in service, exported to SQL, scores the next day's candidates in DuckDB. "
        "C and D thus do not learn from the newest day, which favours B. C has the paper's depth and number of trees "
        f"and bins of {settings['min_bin_size']:,} rows; D is the default preset, nothing changed. A log holds only "
        "ads that were shown, so all of them learn from a biased sample, as in life."
        + (" “±” is the 95 % interval of the mean over markets." if n_markets > 1 else "")
    )


def _percent(found: Spread) -> str:
    if found.n < 2:
        return signed_percent(found.mean)
    return f"{100 * found.mean:+.1f} ± {100 * found.half_width:.1f} %"


def _table(tests: list[dict[str, Any]]) -> str:
    rows = []
    for name, title in TITLES.items():
        cells = [_percent(lift(tests, name, metric)) if name != "none" else "0" for metric in RATIOS]
        rows.append([title, *cells, mean_of_days(tests, name, "tce").text(4)])
    for name in ("isotonic", "mbct"):
        paper = {metric: signed_percent(value) for metric, value in printed.ONLINE[name].items()}
        rows.append([f"*paper, {TITLES[name]}*", *(paper.get(metric, "–") for metric in RATIOS), "–"])
    return table(["bucket", *(HEADINGS[metric] for metric in RATIOS), "TCE"], rows)


def _words(tests: list[dict[str, Any]]) -> str:
    lines = []
    for metric in OUTCOMES:
        gained, ahead = lift(tests, "mbct", metric), lift(tests, "mbct", metric, "isotonic")
        lines.append(
            f"{HEADINGS[metric]} {_percent(gained)}{_certainty(gained)}, and {_percent(ahead)} against isotonic "
            f"regression{_certainty(ahead)}"
        )
    few = f" Simulated markets: {len(tests)}, so this is not significant." if len(tests) < _LEAST_MARKETS else ""
    return (
        f"MBCT as printed against no calibration: {'; '.join(lines)}.{few} The paper reports a gain in AUC, CTR and "
        "eCPM, each above isotonic regression's."
    )


def _certainty(found: Spread) -> str:
    """Whether a change is one; two or three markets are too few for Student's t."""
    if found.n < _LEAST_MARKETS:
        return ""
    return f" (a {'gain' if found.mean > 0 else 'loss'}, significant)" if found.is_sure else " (not significant)"


def _sweep_table(finished: dict[str, Finished]) -> str:
    rows = []
    for pricing in get_args(Pricing):
        sweeps = by_pricing(finished, "sweep", pricing)
        for kind in KINDS:
            for scale in _SHOWN_SCALES:
                i = SCALES.index(scale)
                error = spread([sweep[kind][i]["tce"] for sweep in sweeps]).mean
                costs = [_percent(cost_of_error(sweeps, kind, i, metric)) for metric in OUTCOMES]
                rows.append([f"{pricing}, {KIND_TITLES[kind]}", f"{scale:g} ×", f"{error:.4f}", *costs])
    return table(["auction and error", "scale", "TCE", *(HEADINGS[metric] for metric in OUTCOMES)], rows)


def _sweep_words(text: str, n_markets: int) -> str:
    bands = " (bands: 95 % interval of the mean over markets)" if n_markets > 1 else ""
    return (
        "### What a calibration error costs\n\n"
        f"One day of each market ranked by the base with one of its errors scaled from nothing to {max(SCALES):g} "
        "times its size and the other taken away, relative to the same day ranked by the true probabilities; what is "
        f"left at 0 × is the predictor's noise and flattening{bands}.\n\n"
        f"{text}\n\n"
        "An error that is the same for all ads multiplies nearly all scores alike, so it moves the TCE more than the "
        "ranking; an error that differs between segments gives page views to the wrong ads. A monotone map such as "
        "isotonic regression can correct the first, a map that sees features also the second.\n\n"
        "![Outcome by calibration error](figures/auction-error.svg)"
    )
