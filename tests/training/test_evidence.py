import numpy as np
import pytest

from mbct.training.evidence import Gain, gain_of_rows


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
    """A model that nothing of the fold has chosen reaches 200 to 1 in at most one data set in 200 (Markov)."""
    rng = np.random.default_rng(0)
    large, n_sets = 0, 400
    for _ in range(n_sets):
        p = rng.uniform(0.02, 0.3, 500)
        y = rng.random(500) < p
        fold = (np.arange(500) % 5).astype(np.uint8)
        step = rng.normal(0.0, 0.6, 5)[fold]
        odds = p / (1 - p)
        q = odds * np.exp(step) / (1 + odds * np.exp(step))
        gain = np.where(y, np.log(q / p), np.log((1 - q) / (1 - p)))
        large += gain_of_rows(gain, gain**2, 500.0, fold).evidence >= np.log(200.0)
    assert large <= n_sets * 0.02
