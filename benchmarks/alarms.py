"""How often calibrated streams raise an alarm, and how soon a biased segment does: ``docs/benchmarks/alarms.*``.

A batch of outcomes enters the test by its sums alone, and with few distinct probabilities the number of positives is
binomial: streams of ten million outcomes are simulated exactly, at the cost of their looks.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from made_with import write_page
from mbct.evaluation.monitor import BANDS, CalibrationMonitor
from mbct.stats.calibration_change import LABEL, N_SUMS, ChangeEvidence, outcome_sums

PAGES = Path(__file__).parent.parent / "docs" / "benchmarks"
PROBABILITIES = np.array([0.02, 0.04, 0.06, 0.08])
"""Predictions in each segment, in equal shares: a rate of 5 %."""
SEGMENTS = 50
LEVEL = 0.01
OUTCOMES = 10_000_000
LOOKS = 500


def sums_of(positives: np.ndarray, each: int, tolerance: float) -> np.ndarray:
    """Sums of batches with ``each`` outcomes of every probability, of which ``positives`` (…, probability) are 1."""
    q = PROBABILITIES
    unit = outcome_sums(q, np.zeros(len(q)), np.log1p(tolerance)) * each
    sums = np.broadcast_to(unit, (*positives.shape, N_SUMS)).copy()
    sums[..., LABEL] = positives
    return sums


def false_alarms(n_streams: int, tolerance: float, seed: int) -> dict[str, Any]:
    """Share of calibrated streams of ten million outcomes, 50 segments each, that ever raise an alarm."""
    rng = np.random.default_rng(seed)
    monitor = CalibrationMonitor(level=LEVEL, tolerance=tolerance, segments=SEGMENTS)
    threshold = monitor._threshold
    band = np.searchsorted(BANDS, PROBABILITIES)
    kinds = [0, *(1 + np.unique(band)).tolist(), *range(2 + len(BANDS), 2 + len(BANDS) + SEGMENTS)]
    cap = np.tile(threshold[kinds], n_streams)
    evidence = ChangeEvidence.of(n_streams * len(kinds))
    raised = np.zeros((n_streams, len(kinds)), dtype=bool)
    each = OUTCOMES // LOOKS // SEGMENTS // len(PROBABILITIES)
    for look in range(LOOKS):
        positives = rng.binomial(each, PROBABILITIES, (n_streams, SEGMENTS, len(PROBABILITIES)))
        sums = sums_of(positives, each, tolerance)
        by_probability = sums.sum(axis=1)
        bands = np.stack([by_probability[:, band == b].sum(axis=1) for b in np.unique(band)], axis=1)
        streams = np.concatenate([by_probability.sum(axis=1)[:, None], bands, sums.sum(axis=2)], axis=1)
        evidence.advance(streams.reshape(-1, N_SUMS), float(look))
        raised |= (evidence.log_evidence() >= cap).reshape(raised.shape)
    share = float(raised.any(axis=1).mean())
    error = float(np.sqrt(max(share, 1.0 / n_streams) * (1.0 - share) / n_streams))
    return {"tolerance": tolerance, "streams": n_streams, "share": share, "error": error}


def delays(n_streams: int, bias: float, tolerance: float, before: int, seed: int) -> dict[str, Any]:
    """Outcomes of one of 50 segments from a change to its alarm, after ``before`` calibrated ones of that segment."""
    rng = np.random.default_rng(seed)
    threshold = CalibrationMonitor(level=LEVEL, tolerance=tolerance, segments=SEGMENTS)._threshold[-1]
    evidence = ChangeEvidence.of(n_streams)
    each = 250
    size = each * len(PROBABILITIES)
    delay = np.full(n_streams, np.inf)
    changed = np.zeros(n_streams)
    first = before // size
    for look in range(first + 2_000_000 // size):
        rate = PROBABILITIES * (1.0 if look < first else 1.0 + bias)
        sums = sums_of(rng.binomial(each, rate, (n_streams, len(rate))), each, tolerance).sum(axis=1)
        evidence.advance(sums, float(look * size))
        new = (evidence.log_evidence() >= threshold) & np.isinf(delay) & (look >= first)
        delay[new] = (look + 1 - first) * size
        changed[new] = evidence.start[np.arange(n_streams), evidence.log_e.argmax(axis=1)][new]
        if np.isfinite(delay).all():
            break
    off = np.abs(changed - before)
    return {
        "bias": bias,
        "tolerance": tolerance,
        "before": before,
        "streams": n_streams,
        **{f"p{p}": float(np.percentile(delay, p)) for p in (50, 90, 99)},
        "date_off_p50": float(np.median(off)),
        "date_off_p90": float(np.percentile(off, 90)),
    }


def page(found: dict[str, Any]) -> str:
    """The page of the documentation."""
    false = "\n".join(
        f"| {row['tolerance']:.0%} | {row['streams']:,} | {row['share']:.2%} ± {row['error']:.2%} |"
        for row in found["false_alarms"]
    )
    found_at = "\n".join(
        f"| {row['bias']:+.0%} | {row['tolerance']:.0%} | {row['before']:,} | {row['p50']:,.0f} | {row['p90']:,.0f} | "
        f"{row['p99']:,.0f} | {row['date_off_p50']:,.0f} | {row['date_off_p90']:,.0f} |"
        for row in found["delays"]
    )
    return f"""# Alarms: how often false, how soon true

Written by `python benchmarks/alarms.py`. Streams with 50 segments and a rate of 5 % (predictions 2, 4, 6 and 8 %) are
watched at level 1 %: overall, by range of probability and by segment. Outcomes are drawn from the predictions (first
table) or, in one segment, from predictions times the bias (second). Batches of binomial counts are exact: the test
needs sums alone.

## Calibrated streams of 10 million outcomes

Each is looked at {LOOKS} times. The guarantee is at most 1 %, ever, however often one looks, and within a tolerance.

| tolerance | streams | with any alarm |
|---|---|---|
{false}

## A bias in one of 50 segments

Outcomes of that segment from the change to the alarm, and how far the estimated time of the change is off, in outcomes
of the segment. A segment with one outcome in 50 needs 50 times as many outcomes overall.

| bias | tolerance | calibrated before | median | 90 % | 99 % | date off, median | 90 % |
|---|---|---|---|---|---|---|---|
{found_at}
"""


def main() -> None:
    """Simulate and write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    found = {
        "level": LEVEL,
        "false_alarms": [false_alarms(given.streams, tolerance, given.seed) for tolerance in (0.0, 0.02)],
        "delays": [
            delays(200, bias, tolerance, before, given.seed + 1)
            for bias, tolerance, before in (
                (0.1, 0.0, 0),
                (0.1, 0.02, 0),
                (0.1, 0.02, 200_000),
                (-0.1, 0.02, 200_000),
                (0.3, 0.02, 200_000),
            )
        ],
    }
    (PAGES / "alarms.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    write_page(PAGES / "alarms.md", page(found))


if __name__ == "__main__":
    main()
