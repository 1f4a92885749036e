import calibration.utils
import numpy as np
import pytest
from scipy.optimize import minimize

from mbct.calibrators import PlattCalibrator
from mbct.stats.probabilities import logit
from peers import ExactLogisticRegression, biased_scores


def test_agrees_with_scikit_learn():
    p, y = biased_scores()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(p))
    peer = ExactLogisticRegression(C=np.inf).fit(logit(p)[:, None], y, weight)
    ours = PlattCalibrator().fit(p, y, weight)
    np.testing.assert_allclose(ours.calibrate(p), peer.predict_proba(logit(p)[:, None])[:, 1], atol=1e-6)


def test_agrees_with_uncertainty_calibration(monkeypatch):
    monkeypatch.setattr(calibration.utils, "LogisticRegression", ExactLogisticRegression)
    p, y = biased_scores(seed=2)
    peer = calibration.PlattCalibrator(len(p), 10)
    peer.train_calibration(p, y)
    np.testing.assert_allclose(PlattCalibrator().fit(p, y).calibrate(p), peer.calibrate(p), atol=1e-6)


def test_smoothed_targets_are_platts():
    p, y = biased_scores(n=80)
    positives, negatives = y.sum(), (1 - y).sum()
    target = np.where(y == 1, (positives + 1) / (positives + 2), 1 / (negatives + 2))

    def loss(beta):
        z = beta[0] * logit(p) + beta[1]
        return np.sum(np.logaddexp(0, z) - target * z)

    peer = minimize(loss, np.array([1.0, 0.0]), method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-14})
    ours = PlattCalibrator(smooth_targets=True).fit(p, y).map_
    np.testing.assert_allclose([ours.slope, ours.intercept], peer.x, atol=1e-6)


def test_smoothing_holds_back_certainty():
    p, y = np.array([0.1, 0.2, 0.8, 0.9]), np.array([0, 0, 1, 1])
    plain, smooth = (PlattCalibrator(smooth_targets=s).fit(p, y).calibrate(p) for s in (False, True))
    assert plain[-1] > 0.999
    assert smooth[-1] == pytest.approx(0.75, abs=0.05)


def test_a_score_that_ranks_the_wrong_way_becomes_the_mean():
    p, y = biased_scores()
    calibrated = PlattCalibrator().fit(p, 1 - y).calibrate(p)
    np.testing.assert_allclose(calibrated, np.mean(1 - y), rtol=1e-9)
