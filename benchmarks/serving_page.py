"""The page of the service's benchmark, drawn from its results."""

import statistics
from typing import Any

MOST_ROW_US, LEAST_RATE, MOST_P99 = 5.0, 0.7, 2.0
"""Targets: the median of a row in process; rate and p99 of single rows over those of a handler that does nothing."""

HEAD = """# The scoring service

Written by `benchmarks/serving.py` from `docs/benchmarks/serving.json`; run it again with

```bash
python benchmarks/serving.py   # pip install '.[bench]'
```

{machine}; load average {load:.1f} before the run.
The models have the size that distillation gives: a prediction and seven features, three of them text of 200 values,
four of them numbers in 128 bins.

## In process

| model | a row, median | target | met | a row, p99 | a row of a batch of 1,000 dicts |
|---|---|---|---|---|---|
"""
SERVICE = """
## The service

8 trees of 32 leaves. The service and an ASGI handler that reads the body and answers `{{}}` run at once, each in its
own uvicorn with httptools and uvloop, and are measured in turns of {seconds:g} s with the same bodies: 32 connections
for single rows, 4 for batches. The load comes from the same {cores} cores. Figures are medians of {rounds} rounds, in
brackets those of the handler that does nothing; a ratio is taken within a round, its range in brackets. "CPU" is the
processor time that the server's process takes for a request: what else the machine does moves it least.

| request | requests/s | rows/s | p50 [ms] | p99 [ms] | CPU [µs] | rate ratio | p99 ratio |
|---|---|---|---|---|---|---|---|
"""
NOTES = """
- One row: the target is a rate of at least {rate:g} times that of the handler that does nothing ({rate_met}), and a
  p99 of at most {p99:g} times its p99 ({p99_met}).
- A request goes through ASGI like any other: reading, scoring and answering one row costs the difference to the handler
  that does nothing. More throughput comes from more processes, `mbct serve --workers N`.
- Batches: one million rows a second is the direction. Most of what is left is making Python's objects of text and
  numbers and looking texts up, so columns cost less than rows, MessagePack and Arrow less than JSON.
"""


EARLIER = """
- Before, single rows were answered by a protocol of our own that went round ASGI: {rate:,.0f} requests/s
  ({rate_0:,.0f} by the handler that does nothing, in turns; ratio {ratio:.2f}), {cpu:.0f} µs ({cpu_0:.0f} µs) of CPU a
  request, load average {load_average:.0f}. It was removed: a second path through HTTP was not worth its risk.
"""


def page(results: dict[str, Any]) -> str:
    """The whole page."""
    machine = results["machine"]
    libraries = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    where = f"{machine['cores']} cores, Python {machine['python']}, {libraries}"
    lines = [HEAD.format(machine=where, load=machine["load_average"]).rstrip()]
    lines += [_model_line(row) for row in results["in_process"]]
    lines += [SERVICE.format(cores=machine["cores"], **results).rstrip()]
    lines += [_request_line(row) for row in results["service"]]
    single = next(row for row in results["service"] if row["rows"] == 1)
    rate, p99 = (statistics.median(_ratios(single, name)) for name in ("requests_a_second", "p99_ms"))
    met = {"rate_met": _met(rate >= LEAST_RATE), "p99_met": _met(p99 <= MOST_P99)}
    earlier = EARLIER.format(**results["earlier"]).lstrip() if "earlier" in results else ""
    return "\n".join(lines) + "\n" + NOTES.format(rate=LEAST_RATE, p99=MOST_P99, **met) + earlier


def _model_line(row: dict[str, Any]) -> str:
    met = "yes" if row["row_p50_us"] <= MOST_ROW_US else "**no**"
    model = f"{row['trees']} trees × {row['leaves']} leaves, {row['features']} features"
    figures = f"{row['row_p50_us']:.1f} µs | ≤ {MOST_ROW_US:g} µs | {met} | {row['row_p99_us']:.1f} µs"
    return f"| {model} | {figures} | {row['batch_row_us']:.2f} µs |"


def _request_line(row: dict[str, Any]) -> str:
    rate, p50, p99, cpu = (_median(row["service"], name) for name in _FIGURES)
    rate_0, p50_0, p99_0, cpu_0 = (_median(row["nothing"], name) for name in _FIGURES)
    cells = [
        row["request"],
        f"{rate:,.0f} ({rate_0:,.0f})",
        f"{rate * row['rows']:,.0f}",
        f"{p50:.2f} ({p50_0:.2f})",
        f"{p99:.2f} ({p99_0:.2f})",
        f"{cpu:,.0f} ({cpu_0:,.0f})",
        _spread(_ratios(row, "requests_a_second")),
        _spread(_ratios(row, "p99_ms")),
    ]
    return f"| {' | '.join(cells)} |"


_FIGURES = ("requests_a_second", "p50_ms", "p99_ms", "cpu_us")


def _median(turns: list[dict[str, float]], name: str) -> float:
    return statistics.median(turn[name] for turn in turns)


def _ratios(row: dict[str, Any], name: str) -> list[float]:
    return [ours[name] / theirs[name] for ours, theirs in zip(row["service"], row["nothing"], strict=True)]


def _spread(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _met(met: bool) -> str:
    return "met" if met else "**not met**"
