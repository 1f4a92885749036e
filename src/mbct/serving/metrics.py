"""Counters of the service in Prometheus' text format."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from mbct.evaluation.monitor import OTHER

BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Upper ends of the latency histogram's buckets, in seconds."""
Labels = tuple[tuple[str, str], ...]


class Metrics:
    """What the service counts; only its event loop (and, for unseen values, the interpreter lock) writes here."""

    def __init__(self, unseen_labels: int) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.latency: dict[str, list[int]] = {}
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.rows = 0
        self.score_sum = 0.0
        self.calibrated_sum = 0.0
        self.unseen: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.flushes: Counter[str] = Counter()
        self._unseen_labels = unseen_labels

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self.requests[route, status] += 1
        histogram = self.latency.get(route)
        if histogram is None:
            histogram = self.latency[route] = [0] * (len(BUCKETS) + 1)
        histogram[bisect_left(BUCKETS, seconds)] += 1
        self.seconds[route] += seconds

    def count_rows(self, rows: int, score_sum: float, calibrated_sum: float) -> None:
        """Count scored rows and their mean before and after."""
        self.rows += rows
        self.score_sum += score_sum
        self.calibrated_sum += calibrated_sum

    def count_unseen(self, feature: str, number: int = 1) -> None:
        """Count unseen values of a feature; beyond so many features they share one label."""
        known = feature in self.unseen or len(self.unseen) < self._unseen_labels
        self.unseen[feature if known else OTHER] += number

    def families(self) -> list["Family"]:
        """Everything that was counted."""
        requests = [((("route", r), ("status", str(s))), n) for (r, s), n in sorted(self.requests.items())]
        unseen = [((("feature", name),), n) for name, n in sorted(self.unseen.items())]
        sums = [((("stage", "before"),), self.score_sum), ((("stage", "after"),), self.calibrated_sum)]
        means = [(labels, total / self.rows) for labels, total in sums] if self.rows else []
        outcomes = [((("result", r),), n) for r, n in sorted(self.outcomes.items())]
        flushes = [((("result", r),), n) for r, n in sorted(self.flushes.items())]
        return [
            Family("mbct_requests_total", "counter", "Requests by route and status.", requests),
            Family("mbct_request_seconds", "histogram", "Time from request to reply.", list(self._histogram())),
            single("mbct_rows_total", "counter", "Rows scored.", self.rows),
            Family("mbct_unseen_values_total", "counter", "Category values the model does not know.", unseen),
            Family("mbct_score_sum", "counter", "Sum of predictions before and after calibration.", sums),
            Family("mbct_mean_score", "gauge", "Mean prediction before and after calibration, since start.", means),
            Family("mbct_outcomes_total", "counter", "Outcomes reported, by what became of them.", outcomes),
            Family("mbct_outcome_flushes_total", "counter", "Batches of outcomes handed to the store.", flushes),
        ]

    def _histogram(self) -> Iterator["Sample"]:
        for route, counts in sorted(self.latency.items()):
            of_route = ("route", route)
            for end, running in zip((*map(str, BUCKETS), "+Inf"), accumulate(counts), strict=True):
                yield (of_route, ("le", end)), running, "_bucket"
            yield (of_route,), self.seconds[route], "_sum"
            yield (of_route,), sum(counts), "_count"


Sample = tuple[Labels, float] | tuple[Labels, float, str]
"""Labels, value, and what is added to the family's name."""


class Family(NamedTuple):
    """One metric with all its samples."""

    name: str
    kind: str
    description: str
    samples: Sequence[Sample]


def single(name: str, kind: str, description: str, value: float) -> Family:
    """A metric without labels."""
    return Family(name, kind, description, [((), value)])


def exposition(families: Iterable[Family], common: Labels = ()) -> str:
    """Metrics as Prometheus reads them, every sample with the ``common`` labels before its own.

    >>> up = Family("up", "gauge", "Whether it is.", [((("zone", "here"),), 1)])
    >>> print(exposition([up], (("worker", "7"),)), end="")
    # HELP up Whether it is.
    # TYPE up gauge
    up{worker="7",zone="here"} 1
    """
    lines = []
    for name, kind, description, samples in families:
        lines += [f"# HELP {name} {description}", f"# TYPE {name} {kind}"]
        for labels, value, *suffix in samples:
            inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in (*common, *labels))
            lines.append(f"{name}{''.join(suffix)}{f'{{{inside}}}' if inside else ''} {_number(value)}")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return {float("inf"): "+Inf", float("-inf"): "-Inf"}.get(value) or ("NaN" if value != value else repr(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
