"""Counters of the service in Prometheus' text format."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

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

    def families(self) -> Iterator[str]:
        """The counters as text, family by family."""
        requests = [((("route", r), ("status", str(s))), n) for (r, s), n in sorted(self.requests.items())]
        yield family("mbct_requests_total", "counter", "Requests by route and status.", requests)
        yield self._histogram()
        yield single("mbct_rows_total", "counter", "Rows scored.", self.rows)
        unseen = [((("feature", name),), n) for name, n in sorted(self.unseen.items())]
        yield family("mbct_unseen_values_total", "counter", "Category values the model does not know.", unseen)
        sums = [((("stage", "before"),), self.score_sum), ((("stage", "after"),), self.calibrated_sum)]
        yield family("mbct_score_sum", "counter", "Sum of predictions before and after calibration.", sums)
        means = [(labels, total / self.rows) for labels, total in sums] if self.rows else []
        yield family("mbct_mean_score", "gauge", "Mean prediction before and after calibration, since start.", means)
        outcomes = [((("result", r),), n) for r, n in sorted(self.outcomes.items())]
        yield family("mbct_outcomes_total", "counter", "Outcomes reported, by what became of them.", outcomes)
        flushes = [((("result", r),), n) for r, n in sorted(self.flushes.items())]
        yield family("mbct_outcome_flushes_total", "counter", "Batches of outcomes handed to the store.", flushes)

    def _histogram(self) -> str:
        samples = []
        for route, counts in sorted(self.latency.items()):
            running = 0
            for end, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
                running += count
                samples.append(_sample("mbct_request_seconds_bucket", (("route", route), ("le", end)), running))
            samples.append(_sample("mbct_request_seconds_sum", (("route", route),), self.seconds[route]))
            samples.append(_sample("mbct_request_seconds_count", (("route", route),), running))
        return _head("mbct_request_seconds", "histogram", "Time from request to reply.") + "".join(samples)


def family(name: str, kind: str, description: str, samples: Iterable[tuple[Labels, float]]) -> str:
    """One metric with all its samples.

    >>> print(family("up", "gauge", "Whether it is.", [((("zone", "here"),), 1)]), end="")
    # HELP up Whether it is.
    # TYPE up gauge
    up{zone="here"} 1
    """
    return _head(name, kind, description) + "".join(_sample(name, labels, value) for labels, value in samples)


def single(name: str, kind: str, description: str, value: float) -> str:
    """A metric without labels."""
    return family(name, kind, description, [((), value)])


def labelled(text: str, label: str, value: str) -> str:
    r"""Every sample of a text with one more label.

    >>> print(labelled('# TYPE up gauge\nup 1\nup{a="b"} 2\n', "worker", "7"), end="")
    # TYPE up gauge
    up{worker="7"} 1
    up{worker="7",a="b"} 2
    """
    added = f'{label}="{_escaped(value)}"'
    lines = []
    for line in text.splitlines():
        name, brace, rest = line.partition("{")
        if line.startswith("#"):
            lines.append(line)
        elif brace:
            lines.append(f"{name}{{{added},{rest}")
        else:
            name, _, number = line.rpartition(" ")
            lines.append(f"{name}{{{added}}} {number}")
    return "\n".join(lines) + "\n"


def _head(name: str, kind: str, description: str) -> str:
    return f"# HELP {name} {description}\n# TYPE {name} {kind}\n"


def _sample(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    shown = {float("inf"): "+Inf", float("-inf"): "-Inf"}.get(value) or ("NaN" if value != value else repr(value))
    return f"{name}{{{inside}}} {shown}\n" if inside else f"{name} {shown}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
