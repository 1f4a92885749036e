"""The public online layer: it follows drift, can be switched off, and takes up a saved state exactly."""

import json

import numpy as np
import pytest

from mbct import OnlineCalibrator
from mbct.errors import DataError, ParameterError


def taught(factor, n_batches=30, **settings):
    rng = np.random.default_rng(0)
    online = OnlineCalibrator(**settings)
    for _ in range(n_batches):
        q = rng.choice([0.05, 0.2], 1000)
        segment = rng.choice(["a", "b"], 1000)
        online.partial_fit(q, rng.random(1000) < q * np.where(segment == "b", factor, 1.0), segment)
    return online


def test_it_is_the_identity_before_the_first_outcome():
    q = [0.0, 0.123456789, 1.0]
    assert OnlineCalibrator().calibrate(q).tolist() == q


def test_segments_move_apart_and_unknown_ones_get_the_common_shift():
    online = taught(1.6, segments=2)
    a, b, other = online.calibrate([0.2, 0.2, 0.2], ["a", "b", "c"])
    assert a == pytest.approx(0.2, abs=0.02)
    assert b == pytest.approx(0.32, abs=0.03)
    assert a < other < b
    assert set(online.offsets) == {"a", "b"}
    online.enabled = False
    assert online.calibrate([0.2], ["b"]).tolist() == [0.2]


def test_a_saved_state_goes_on_exactly():
    first = taught(1.3, segments=2)
    second = OnlineCalibrator(segments=2)
    second.restore(json.loads(json.dumps(first.to_dict())))
    q, y, s = [0.1, 0.3], [1, 0], ["a", "b"]
    assert second.partial_fit(q, y, s).to_dict() == first.partial_fit(q, y, s).to_dict()
    assert second.calibrate(q, s).tolist() == first.calibrate(q, s).tolist()
    with pytest.raises(ParameterError, match="segments"):
        OnlineCalibrator(segments=3).restore(first.to_dict())


@pytest.mark.parametrize("bad", [{"segments": -1}, {"max_shift": 0.0}, {"max_shift": 9.0}])
def test_parameters_are_checked(bad):
    with pytest.raises(ParameterError, match=next(iter(bad))):
        OnlineCalibrator(**bad)


def test_data_are_checked():
    with pytest.raises(DataError, match="y_true"):
        OnlineCalibrator().partial_fit([0.5], [0, 1])
    with pytest.raises(DataError, match="y_prob"):
        OnlineCalibrator().calibrate([1.5])
