"""Prior shift by Bayes' rule, and the EM estimate of the new rate, on data where both are known."""

import numpy as np
import pytest

from mbct import MBCTCalibrator
from mbct.calibrators import estimate_prevalence, shift_prevalence
from mbct.errors import ParameterError
from mbct.stats.probabilities import sigmoid


def population(rng, rate, n):
    """Two normal classes: the probability is known at any rate."""
    y = rng.random(n) < rate
    x = rng.normal(np.where(y, 1.0, -1.0), 1.0)
    return y, sigmoid(2.0 * x + np.log(rate / (1.0 - rate))), x


def test_shifted_probabilities_are_those_of_the_new_rate():
    _, at_new, x = population(np.random.default_rng(0), 0.4, 1000)
    at_old = sigmoid(2.0 * x + np.log(0.1 / 0.9))
    assert shift_prevalence(at_old, 0.1, 0.4) == pytest.approx(at_new)


@pytest.mark.parametrize("rate", [0.02, 0.3])
def test_the_rate_of_unlabelled_rows_is_found_within_its_error(rate):
    found = []
    for seed in range(20):
        y, _, x = population(np.random.default_rng(seed), rate, 5000)
        estimate = estimate_prevalence(sigmoid(2.0 * x + np.log(0.1 / 0.9)), 0.1)
        found.append((estimate.prevalence - rate) / estimate.standard_error)
        assert abs(estimate.prevalence - y.mean()) < 0.05
    assert abs(np.mean(found)) < 1.0
    assert 0.6 < np.std(found) < 1.5


def test_predictions_that_say_nothing_have_a_large_error():
    assert estimate_prevalence(np.full(100, 0.1), 0.1).standard_error == float("inf")


def test_a_model_shifts_from_the_rate_of_its_fit():
    rng = np.random.default_rng(1)
    frame = {"p": rng.random(2000), "site": rng.choice(["a", "b"], 2000)}
    y = (rng.random(2000) < frame["p"] * 0.5).astype(int)
    model = MBCTCalibrator("p", preset="paper").fit(frame, y)
    assert model.prevalence_ == pytest.approx(y.mean())
    plain, shifted = model.calibrate(frame), model.calibrate(frame, prevalence=0.1)
    assert shifted == pytest.approx(shift_prevalence(plain, y.mean(), 0.1))
    with pytest.raises(ParameterError, match="certified at the label rate"):
        model.calibrate(frame, prevalence=0.1, return_interval=True)


def test_rates_are_checked():
    with pytest.raises(ParameterError, match="prevalence"):
        shift_prevalence([0.1], 0.1, 1.0)
