import calibration
import calibration.utils
import numpy as np
import pytest

from mbct.calibrators import ScalingBinningCalibrator
from peers import ExactLogisticRegression, biased_scores


@pytest.mark.parametrize("n_bins", [10, 15])
def test_agrees_with_uncertainty_calibration(n_bins, monkeypatch):
    monkeypatch.setattr(calibration.utils, "LogisticRegression", ExactLogisticRegression)
    p, y = biased_scores()
    peer = calibration.PlattBinnerCalibrator(len(p), n_bins)
    peer.train_calibration(p, y)
    ours = ScalingBinningCalibrator(n_bins=n_bins).fit(p, y)
    np.testing.assert_allclose(ours.calibrate(p), peer.calibrate(p), atol=1e-6)
    assert len(np.unique(ours.calibrate(np.linspace(0, 1, 999)))) == n_bins


def test_the_mean_of_the_outputs_is_the_label_rate():
    p, y = biased_scores()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(p))
    calibrated = ScalingBinningCalibrator().fit(p, y, weight).calibrate(p)
    assert np.average(calibrated, weights=weight) == pytest.approx(np.average(y, weights=weight), abs=1e-9)
