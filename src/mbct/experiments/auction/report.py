"""The README's section on the auction."""

from pathlib import Path
from typing import Any, get_args

from mbct.experiments import printed
from mbct.experiments.auction.auction import RESERVE, SHADING, Pricing
from mbct.experiments.auction.figures import draw_days, draw_sweep
from mbct.experiments.auction.policies import HALF_LIFE_DAYS, NIGHTLY_DEFAULT, TITLES
from mbct.experiments.auction.results import RATIOS, by_pricing, lift, mean_error
from mbct.experiments.markdown import signed_percent, table
from mbct.experiments.parts import Part, write
from mbct.experiments.spread import Spread

_LEAST_MARKETS = 4
_HEADINGS = {
    "auc": "AUC, shown",
    "candidate_auc": "AUC, all candidates",
    "ctr": "CTR",
    "ecpm": "eCPM",
    "revenue": "revenue",
    "surplus": "advertisers' surplus",
}


def report(results: dict[str, dict[str, Any]], out: Path, parts: list[Part]) -> str:
    """Draw the figures, write the tables, return the section."""
    settings = next(part.parameters for part in parts if part.name.startswith("test-"))
    sections = [_introduction(settings, len(by_pricing(results, "test", "second-price")))]
    for pricing in get_args(Pricing):
        tests = by_pricing(results, "test", pricing)
        text = _table(tests)
        write(out / "tables" / f"auction-{pricing}.md", text + "\n")
        draw_days(out / "figures" / f"auction-days-{pricing}.svg", tests, pricing)
        sections.append(
            f"### {pricing.capitalize()} auction\n\n{text}\n\n{_words(tests)}\n\n"
            f"![Buckets by day, {pricing}](figures/auction-days-{pricing}.svg)"
        )
    draw_sweep(out / "figures" / "auction-error.svg", results)
    sections.append(_sweep_words())
    return "\n\n".join(sections)


def _introduction(settings: dict[str, Any], n_markets: int) -> str:
    return (
        "## 4. The online test, simulated (Section 5.6)\n\n"
        "**This is a simulation.** The paper's test ran on live traffic that nobody else has; here a market is "
        "drawn at "
        "random and nothing in it was fitted to the paper's numbers, so only directions can be compared, not sizes.\n\n"
        f"What it assumes: {settings['candidates']} of 40 advertisers compete for each page view; the ad with the "
        "highest bid × pCTR is shown, an advertiser pays for clicks only and takes part while the day's budget covers "
        "the bid; in the second-price auction advertisers bid a click's value and pay the least bid that would have "
        f"won, in the first-price auction they bid {SHADING:.0%} of the value and pay it (reserve {RESERVE:.2f}); "
        "bids do not react "
        "to the calibration. True click rates depend on ad, device × category, age × category, area and slot, and "
        "drift "
        "daily. The base predictor knows the first day's world with noise, one error common to all ads, and one for "
        "each "
        "pair of device and category.\n\n"
        f"{n_markets} markets, {settings['days']} days, {settings['views']:,} page views a day in each bucket. "
        "Buckets B, C and D are "
        f"retrained every night on the log of {settings['rest_views']:,} other page views, ranked by the base, "
        "older days "
        f"fading with a half-life of {HALF_LIFE_DAYS:g} days: B on rows, C and D on cells alone, merged and faded "
        "day by "
        f"day. D is our default preset in larger steps (rate {NIGHTLY_DEFAULT['rate']}, at most "
        f"{NIGHTLY_DEFAULT['max_trees']} trees). A log holds only ads that were shown, so all of them learn from a "
        "biased "
        "sample, as in life. “±” is the 95 % interval of the mean over markets."
    )


def _percent(found: Spread) -> str:
    if found.n < 2:
        return signed_percent(found.mean)
    return f"{100 * found.mean:+.1f} ± {100 * found.half_width(of_mean=True):.1f} %"


def _table(tests: list[dict[str, Any]]) -> str:
    rows = []
    for name, title in TITLES.items():
        cells = [_percent(lift(tests, name, metric)) if name != "none" else "0" for metric in RATIOS]
        rows.append([title, *cells, f"{mean_error(tests, name).mean:.4f}"])
    for name in ("isotonic", "mbct"):
        paper = {metric: signed_percent(value) for metric, value in printed.ONLINE[name].items()}
        rows.append([f"*paper, {TITLES[name]}*", *(paper.get(metric, "–") for metric in RATIOS), "–"])
    return table(["bucket", *(_HEADINGS[metric] for metric in RATIOS), "TCE"], rows)


def _words(tests: list[dict[str, Any]]) -> str:
    said = []
    for metric in ("auc", "ctr", "ecpm"):
        isotonic, mbct = lift(tests, "isotonic", metric), lift(tests, "mbct", metric)
        ahead = "above" if mbct.mean > isotonic.mean else "not above"
        sure = _certainty(mbct)
        said.append(
            f"{_HEADINGS[metric]} {_percent(mbct)} ({sure}; {ahead} isotonic regression's {_percent(isotonic)})"
        )
    return (
        f"MBCT as printed against no calibration: {'; '.join(said)}. The paper reports a gain in all three, each above "
        "isotonic regression's."
    )


def _certainty(found: Spread) -> str:
    """Whether a gain is one; two or three markets leave Student's t too little to judge by."""
    if found.n < _LEAST_MARKETS:
        return f"{found.n} markets are too few to tell it from chance"
    return "a gain beyond chance" if found.mean > found.half_width(of_mean=True) else "not beyond chance"


def _sweep_words() -> str:
    return (
        "### What a calibration error costs\n\n"
        "One day of each market ranked by the base with its error scaled from nothing to twice its size, relative to "
        "the same day ranked by the true probabilities (thin lines: single markets). An error that is the same for all "
        "ads hardly changes a ranking, so it moves the TCE more than the outcome; an error that differs between "
        "segments gives page views to the wrong ads. A monotone map such as isotonic regression can mend the first, a "
        "map that sees features also the second.\n\n"
        "![Outcome by calibration error](figures/auction-error.svg)"
    )
