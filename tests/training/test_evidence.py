import numpy as np
import pytest

from mbct.stats.probabilities import sigmoid
from mbct.training.evidence import (
    FEW_BLOCKS,
    SELECTION,
    SIGNIFICANT_TREES,
    Gain,
    Scale,
    gain_of_rows,
    scale_of,
    significance,
)
from mbct.training.folds import BlockOptions, row_blocks


def test_evidence_is_the_log_of_the_mean_likelihood_ratio():
    gain = np.array([1.0, 2.0, -0.5, 0.25])
    fold = np.array([0, 1, 1, 2], dtype=np.uint8)
    found = gain_of_rows(gain, gain**2, 4.0, fold)
    assert found.evidence == pytest.approx(np.log(np.mean(np.exp([1.0, 1.5, 0.25]))))
    assert found.total == pytest.approx(2.75)
    assert found.value == pytest.approx(gain.mean())
    assert found.standard_error == pytest.approx(gain.std() / 2.0)


def test_evidence_of_large_gains_does_not_overflow():
    assert gain_of_rows(np.array([5_000.0, 10.0]), np.ones(2), 2.0, np.array([0, 1], np.uint8)).evidence > 4_999


@pytest.mark.parametrize(
    ("gain", "shrinkage"),
    [
        (Gain(0.02, 0.01, 5.0, 15.0), 0.0),
        (Gain(0.02, 0.01, 5.5, 15.0), 0.75),
        (Gain(0.02, 0.01, 5.0, 17.0), 0.75),
        (Gain(0.01, 0.01, 9.0, 20.0), 0.0),
        (Gain(-0.01, 0.001, -3.0, -9.0), 0.0),
        (Gain(0.1, 0.01, 80.0, 400.0), 0.99),
    ],
)
def test_a_correction_is_kept_where_its_gain_is_significant(gain, shrinkage):
    assert gain.shrinkage == pytest.approx(shrinkage)


def test_evidence_for_steps_chosen_without_the_labels_is_rarely_large():
    """A model that nothing of the fold has chosen reaches k to 1 in at most one data set in k (Markov)."""
    rng = np.random.default_rng(0)
    evidence = np.empty(1_000)
    for i in range(len(evidence)):
        p = rng.uniform(0.02, 0.3, 500)
        y = rng.random(500) < p
        fold = (np.arange(500) % 5).astype(np.uint8)
        step = rng.normal(0.0, 0.6, 5)[fold]
        odds = p / (1 - p)
        q = odds * np.exp(step) / (1 + odds * np.exp(step))
        gain = np.where(y, np.log(q / p), np.log((1 - q) / (1 - p)))
        evidence[i] = gain_of_rows(gain, gain**2, 500.0, fold).evidence
    for ratio in (2.0, 5.0, 20.0, 200.0):
        assert np.mean(evidence >= np.log(ratio)) <= 1.0 / ratio
    assert np.exp(evidence).mean() <= 1.0 + 3.0 * np.exp(evidence).std() / np.sqrt(len(evidence))
    assert np.any(evidence >= np.log(2.0))


def years(seed, bias, n_years=5, n_rows=2_000, spread=0.2):
    """Log-odds, a correction by segment, labels that need ``bias`` times it, and the year, each with its own shock."""
    rng = np.random.default_rng(seed)
    year = np.repeat(np.arange(n_years), n_rows)
    before, correction = rng.normal(-1.0, 1.0, len(year)), rng.choice([-0.5, 0.5], len(year))
    shocked = before + bias * correction + rng.normal(0.0, spread, n_years)[year]
    return before, correction, (rng.random(len(year)) < sigmoid(shocked)).astype(float), year


def scale_by_years(before, correction, label, year):
    n_years = int(year.max()) + 1
    blocks = row_blocks(year, np.ones(len(year)), 5, 0, BlockOptions())
    return scale_of(before, correction, np.ones(len(year)), label, blocks, np.ones(n_years))


def test_a_bias_that_five_years_share_is_significant():
    for seed in range(10):
        assert scale_by_years(*years(seed, bias=1.0)).significance(5) > SIGNIFICANT_TREES


def test_five_years_that_agree_by_chance_are_not_significant():
    """A small random effect that happens to be the same in all five years has a tiny error by their sums alone."""
    before, correction, label, _ = years(1, bias=0.15, n_years=1, spread=0.0)
    same = [np.tile(values, 5) for values in (before, correction, label)]
    scale = scale_by_years(*same, np.repeat(np.arange(5), len(label)))
    assert scale.z > 100.0
    assert scale.significance(5) < SIGNIFICANT_TREES


def test_many_blocks_are_evaluated_by_their_own_spread():
    certain = Scale(1.0, standard_error=0.2, expected_error=0.25)
    assert certain.significance(FEW_BLOCKS) == significance(5.0, FEW_BLOCKS)
    assert certain.significance(FEW_BLOCKS - 1) == 1.0 / 0.25 - SELECTION


def test_the_expected_error_grows_with_the_shocks_where_the_correction_is_one_of_level():
    before, _, label, year = years(3, bias=0.0, n_years=30, spread=0.6)
    shift = scale_by_years(before, np.full(len(year), 0.5), label, year)
    calm = scale_by_years(before, np.full(len(year), 0.5), years(3, 0.0, 30, spread=0.0)[2], year)
    assert shift.expected_error > 10.0 * calm.expected_error
    assert 1.0 < shift.expected_error / shift.standard_error < 1.4
