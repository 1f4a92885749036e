"""What the verdict weighs, and how it is put into words."""

import math
from dataclasses import replace

import pytest

from builders import biased_clicks
from mbct.calibrators.score_only.logistic import PlattCalibrator
from mbct.data.checks import SuspectColumn
from mbct.report.paired import PairedEstimate
from mbct.report.scored import Scored, score_rows
from mbct.report.sections import fields
from mbct.report.sections.verdict import BIAS, Biased, compute, sentences

NONE = Biased(0, 0, 0)


@pytest.fixture(scope="module")
def scored() -> Scored:
    data = biased_clicks(1, 2000)
    return score_rows(PlattCalibrator("p").fit(data.frame, "y"), data.frame, "y")


def estimate(before: float, after: float, margin: float = 0.001) -> PairedEstimate:
    change = after - before
    nowhere = (math.nan, math.nan)
    return PairedEstimate(before, after, nowhere, nowhere, (change - margin, change + margin))


def estimates(**given: tuple[float, float]) -> dict[str, PairedEstimate]:
    usual = {"log_loss": (0.40, 0.38), "auc": (0.70, 0.72), "pcoc": (0.985, 0.985), "ece": (0.0104, 0.0104)}
    values = {**usual, **given}
    found = {name: estimate(*pair) for name, pair in values.items()}
    bias = (abs(values["pcoc"][0] - 1.0), abs(values["pcoc"][1] - 1.0))
    return {**found, BIAS: estimate(*bias)}


@pytest.mark.parametrize(
    ("given", "outcome", "beginning"),
    [
        ({}, "better", "Calibration helps: log loss falls by 5.00%"),
        ({"pcoc": (0.985, 0.952), "ece": (0.0104, 0.0140)}, "mixed", "Mixed: log loss falls by 5.00%"),
        ({"ece": (0.0104, 0.0140)}, "mixed", "Mixed: log loss falls"),
        ({"ece": (0.0104, 0.0109)}, "better", "Calibration helps"),
        ({"log_loss": (0.40, 0.42)}, "worse", "Calibration hurts on these rows: log loss rises by 5.00%"),
        ({"log_loss": (0.40, 0.3995)}, "unsure", "No significant difference: log loss falls by 0.13%"),
        ({"auc": (0.59, 1.0)}, "suspicious", "Suspiciously good: AUC goes from 0.590 to 1.00"),
        ({"auc": (0.94, 0.96)}, "better", "Calibration helps"),
    ],
)
def test_outcomes(scored: Scored, given: dict[str, tuple[float, float]], outcome: str, beginning: str) -> None:
    found = compute(scored, estimates(**given), NONE)
    assert found.outcome == outcome
    assert found.sentence.startswith(beginning)


def test_mixed_names_both_figures(scored: Scored) -> None:
    found = compute(scored, estimates(pcoc=(0.985, 0.952), ece=(0.0104, 0.0140)), NONE)
    assert "more biased overall (PCOC 0.985 → 0.952, ECE 0.0104 → 0.0140)" in found.sentence


def test_a_leak_is_named(scored: Scored) -> None:
    leaking = replace(scored, leaks=(SuspectColumn("nclaims", "it alone ranks held-out labels"),))
    found = compute(leaking, estimates(), NONE)
    assert found.outcome == "suspicious"
    assert "nclaims (it alone ranks held-out labels)" in found.sentence


def test_plain_sentences_name_the_values_where_most_was_missed(scored: Scored) -> None:
    overall, *segments = sentences(estimate(1.45, 0.97), fields.compute(scored))
    assert overall == "Overall, predictions were 45 % too high; now they are within 3 %."
    assert len(segments) == 2
    assert segments[0].startswith("device = mobile (")
    assert "too low; now" in segments[0]
    assert sentences(estimate(1.004, 1.0), [])[0] == "Overall, predictions were within 1 %; they still are."
