import copy
import json
import math
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from mbct.evaluation.metrics.results import (
    BinnedEstimate,
    Estimate,
    Interval,
    MultiViewEstimate,
    ScaledEstimate,
    ScoreEstimate,
)

INTERVAL = Interval(0.1, 0.3, 0.95, 200)


def test_is_a_float_in_every_respect():
    estimate = Estimate(0.25, INTERVAL)
    assert isinstance(estimate, float)
    assert estimate + 1 == 1.25
    assert estimate == 0.25
    assert -1 * estimate == -0.25
    assert f"{estimate:.3f}" == "0.250"
    assert float(estimate) == estimate.value
    assert json.dumps(estimate) == "0.25"
    assert np.asarray([estimate]).dtype == np.float64
    assert hash(estimate) == hash(0.25)


def test_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Estimate(0.25).value = 1.0


@pytest.mark.parametrize("copied", [lambda e: pickle.loads(pickle.dumps(e)), copy.deepcopy])
def test_copies_keep_everything(copied):
    other = copied(BinnedEstimate(0.25, INTERVAL, 0.01, "chance", 15))
    assert (other.value, other.interval, other.p_value, other.n_bins) == (0.25, INTERVAL, 0.01, 15)
    assert other == 0.25


def test_prints_what_it_knows():
    assert str(Estimate(0.25)) == "0.25"
    text = str(BinnedEstimate(0.25, INTERVAL, 0.012, "the predictions were right", 15))
    expected = "0.25 (15 bins; 95% interval 0.1 to 0.3, 200 resamples; p = 0.012 if the predictions were right)"
    assert text == expected
    assert repr(Estimate(0.5)) == "<Estimate 0.5>"
    assert "± 0.001 over 100 shuffle views of 32 bins" in str(
        MultiViewEstimate(0.2, standard_error=0.001, n_views=100, n_bins=32)
    )
    assert "1 features view)" in str(MultiViewEstimate(0.2, views="features", n_views=1))
    assert "closed form" in str(MultiViewEstimate(0.2, method="closed-form", n_bins=32))
    assert "discrimination 0.1" in str(ScoreEstimate(0.2, miscalibration=0.05, discrimination=0.1, uncertainty=0.25))


def test_scaled_by_sigma():
    assert ScaledEstimate(0.02, sigma=0.01).scaled == 2.0
    assert ScaledEstimate(0.02, sigma=0.0).scaled == math.inf
