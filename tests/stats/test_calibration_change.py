"""Evidence of a change is an e-process: its expectation stays 1 at the edge of the tolerance, below it inside."""

import itertools

import numpy as np
import pytest

from mbct.stats.calibration_change import LABEL, N_SUMS, TILTS, ChangeEvidence, _later, outcome_sums
from mbct.stats.probabilities import logit, sigmoid


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_the_expectation_at_the_edge_of_the_tolerance_is_one_for_tilts_beyond_it(side):
    q, tolerance = np.array([0.03, 0.4]), 0.05
    p = sigmoid(logit(q) + side * tolerance)
    total = np.zeros(len(TILTS))
    for y in itertools.product([0.0, 1.0], repeat=2):
        sums = outcome_sums(q, np.array(y), tolerance).sum(axis=0)
        chance = np.prod(np.where(y, p, 1 - p))
        total += chance * np.exp(TILTS * sums[LABEL] - sums[4:])
    assert total[side * TILTS > 0] == pytest.approx(1.0)
    assert (total[side * TILTS < 0] < 1.0).all()


def test_the_mixture_over_changes_never_has_an_expectation_above_one():
    q = np.array([0.2])
    paths = list(itertools.product([0.0, 1.0], repeat=8))
    expected = 0.0
    for path in paths:
        evidence = ChangeEvidence.of(1)
        for step, y in enumerate(path):
            evidence.advance(outcome_sums(q, np.array([y]), 0.0), float(step))
        chance = np.prod(np.where(path, 0.2, 0.8))
        expected += chance * np.exp(evidence.log_evidence()[0])
    assert 0.5 < expected <= 1.0


def test_batches_may_end_for_whatever_reason():
    """The evidence and the weight that is not spent yet are a martingale, though labels decide when a batch ends."""
    q, expected = np.array([0.2]), 0.0
    for path in itertools.product([0.0, 1.0], repeat=8):
        evidence, batch = ChangeEvidence.of(1), np.zeros((1, N_SUMS))
        for step, y in enumerate(path):
            batch += outcome_sums(q, np.array([y]), 0.0)
            if y or step == len(path) - 1:
                evidence.advance(batch, float(step))
                batch[:] = 0.0
        chance = np.prod(np.where(path, 0.2, 0.8))
        expected += chance * (np.exp(evidence.log_evidence()[0]) + _later(evidence.information)[0])
    assert expected == pytest.approx(1.0)


def test_a_change_is_dated_and_its_sums_begin_there():
    rng = np.random.default_rng(0)
    evidence = ChangeEvidence.of(1)
    q = np.full(2000, 0.1)
    for day in range(40):
        y = (rng.random(2000) < (0.1 if day < 30 else 0.13)).astype(float)
        evidence.advance(outcome_sums(q, y, 0.02).sum(axis=0)[None], float(day))
    tilt = evidence.log_e[0].argmax()
    assert evidence.log_evidence()[0] > 20
    assert abs(evidence.start[0, tilt] - 30) <= 2
    count, label, pred = evidence.since[0, tilt]
    assert count == (40 - evidence.start[0, tilt]) * 2000
    assert label / pred == pytest.approx(1.3, abs=0.04)


def test_streams_do_not_touch_each_other_and_a_restart_forgets_one():
    rng = np.random.default_rng(1)
    both, alone = ChangeEvidence.of(2), ChangeEvidence.of(1)
    for step in range(5):
        q, y = np.full(50, 0.2), (rng.random(50) < 0.4).astype(float)
        sums = outcome_sums(q, y, 0.0).sum(axis=0)
        both.advance(np.stack([sums, np.zeros(N_SUMS)]), float(step))
        alone.advance(sums[None], float(step))
    assert both.log_e[0].tolist() == alone.log_e[0].tolist()
    assert both.log_e[1].tolist() == ChangeEvidence.of(1).log_e[0].tolist()
    copy = ChangeEvidence.from_dict(both.to_dict())
    assert copy.to_dict() == both.to_dict()
    copy.restart(0)
    assert copy.to_dict() == ChangeEvidence.of(2).to_dict()
    assert both.cusum[0].max() > 0.0
