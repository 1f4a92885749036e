"""Days summed to the ratios that are compared between buckets."""

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from reproduction.parts import Finished
from reproduction.spread import Spread, spread

Totals = dict[str, float]
RATIOS: dict[str, Callable[[Totals], float]] = {
    "auc": lambda t: t["auc"],
    "candidate_auc": lambda t: t["candidate_auc"],
    "ctr": lambda t: t["clicks"] / t["impressions"],
    "ecpm": lambda t: 1000.0 * t["revenue"] / t["impressions"],
    "revenue": lambda t: t["revenue"],
    "surplus": lambda t: t["surplus"],
}
HEADINGS = {
    "auc": "AUC, shown",
    "candidate_auc": "AUC, all candidates",
    "ctr": "CTR",
    "ecpm": "eCPM",
    "revenue": "revenue",
    "surplus": "advertisers' surplus",
}


def by_pricing(finished: dict[str, Finished], kind: str, pricing: str) -> list[dict[str, Any]]:
    """All markets of one kind of part under one pricing."""
    return [part.result for name, part in finished.items() if name.startswith(f"{kind}-{pricing}-")]


def totals(days: list[Totals]) -> Totals:
    """Sums over days, for each day's AUC only its sum over days: all buckets have equally many."""
    return {key: sum(day[key] for day in days) for key in days[0]}


def lift(tests: list[dict[str, Any]], bucket: str, metric: str, against: str = "none") -> Spread:
    """Relative gain over another bucket, by default the one without calibration, over markets."""
    ratio = RATIOS[metric]
    return spread([ratio(totals(t["days"][bucket])) / ratio(totals(t["days"][against])) - 1.0 for t in tests])


def mean_of_days(tests: list[dict[str, Any]], bucket: str, metric: str) -> Spread:
    """Mean over days, over markets."""
    return spread([sum(day[metric] for day in t["days"][bucket]) / len(t["days"][bucket]) for t in tests])


def daily(tests: list[dict[str, Any]], bucket: str, metric: str) -> list[float]:
    """Mean over markets of each day's ratio."""
    ratio: Callable[[Totals], float] = RATIOS.get(metric, itemgetter(metric))
    n_days = len(tests[0]["days"][bucket])
    return [sum(ratio(t["days"][bucket][d]) for t in tests) / len(tests) for d in range(n_days)]


def cost_of_error(sweeps: list[dict[str, Any]], kind: str, number: int, metric: str) -> Spread:
    """Change against ranking by the truth at one scale of the predictor's error, over markets."""
    ratio = RATIOS[metric]
    return spread([ratio(sweep[kind][number]) / ratio(sweep["truth"]) - 1.0 for sweep in sweeps])
