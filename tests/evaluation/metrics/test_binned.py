import math

import numpy as np
import pytest

import mbct.metrics as metrics
from mbct.errors import ParameterError


def _sample(n, seed=0, power=1.0):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return (rng.random(n) < p**power).astype(int), p


def test_mce_is_the_infinite_norm():
    y, p = _sample(500, power=2)
    assert metrics.mce(y, p) == metrics.ece(y, p, norm=math.inf)


def test_sweep_tells_its_bins():
    y, p = _sample(2000, power=2)
    found = metrics.ece_sweep(y, p)
    assert found == pytest.approx(metrics.ece(y, p, n_bins=found.n_bins, norm=2))
    rates = [part.mean() for part in np.array_split(y[np.argsort(p)], found.n_bins)]
    assert found.n_bins > 3
    assert np.all(np.diff(rates) > -0.02)


def test_p_value_tells_chance_from_error():
    y, p = _sample(1000)
    right = metrics.ece(y, p, n_null=199)
    wrong = metrics.ece(_sample(1000, power=2)[0], p, n_null=199)
    assert right.p_value > 0.05
    assert wrong.p_value == 1 / 200
    assert right.null == "the predictions were right (labels drawn from them, 199 times)"
    assert metrics.ece(y, p).p_value is None


def test_p_values_are_uniform_where_predictions_are_right():
    found = [metrics.ece(*_sample(200, seed), n_null=39, seed=seed).p_value for seed in range(120)]
    assert np.mean(np.array(found) <= 0.1) == pytest.approx(0.1, abs=0.09)
    assert np.mean(found) == pytest.approx(0.5, abs=0.1)


def test_interval_covers_the_true_bias():
    covered, n_samples = 0, 300
    for seed in range(n_samples):
        rng = np.random.default_rng(seed)
        p = rng.random(400)
        y = (rng.random(400) < 0.7 * p).astype(int)
        interval = metrics.pce(y, p, confidence=0.9, n_bootstrap=100).interval
        covered += interval.lower <= 0.15 <= interval.upper
    assert covered / n_samples == pytest.approx(0.9, abs=0.05)


def test_bfgpce_divides_sorted_or_shuffled():
    p = np.repeat([0.2, 0.6], 50)
    y = np.concatenate([np.tile([0, 1], 25), np.tile([0, 1, 0, 0, 0], 10)])  # rates 0.5 and 0.2
    sorted_error = metrics.bfgpce(y, p, n_parts=2)
    assert sorted_error == pytest.approx((0.3 + 0.4) / 2)
    assert metrics.bfgpce(y, p, n_parts=2, division="shuffle") < 0.15


def test_pud_below_one_is_underestimated():
    assert metrics.pud([1, 1, 0, 0], [0.25] * 4) == 0.5
    assert metrics.pud([0, 0], [0.1, 0.2]) == math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda y, p: metrics.ece(y, p, n_bins=0), "n_bins must be a whole number of at least 1, got 0"),
        (lambda y, p: metrics.ece(y, p, n_bins=2.5), "n_bins must be a whole number of at least 1, got 2.5"),
        (lambda y, p: metrics.ece(y, p, norm=0.5), "norm must be a number of at least 1 or math.inf, got 0.5"),
        (
            lambda y, p: metrics.ece(y, p, strategy="quantile"),
            "strategy must be one of 'uniform-mass', 'equal-width', got 'quantile'",
        ),
        (lambda y, p: metrics.bfgpce(y, p, division="x"), "division must be one of 'sorted', 'shuffle', got 'x'"),
        (lambda y, p: metrics.ece(y, p, n_null=-1), "n_null must be a whole number of at least 0, got -1"),
        (lambda y, p: metrics.tce(y, p, norm="two"), "norm must be a number of at least 1 or math.inf, got 'two'"),
    ],
)
def test_senseless_parameters_are_named(call, message):
    with pytest.raises(ParameterError, match=message):
        call([0, 1], [0.2, 0.8])
