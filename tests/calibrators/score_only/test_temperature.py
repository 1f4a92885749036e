import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from mbct.calibrators import TemperatureCalibrator
from mbct.stats.probabilities import logit
from peers import biased_scores


def test_agrees_with_a_line_search():
    p, y = biased_scores()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(p))
    z = logit(p)
    peer = minimize_scalar(
        lambda t: np.sum(weight * (np.logaddexp(0, z / t) - y * z / t)), bounds=(0.1, 10), options={"xatol": 1e-12}
    )
    ours = TemperatureCalibrator().fit(p, y, weight)
    np.testing.assert_allclose(ours.calibrate(p), 1 / (1 + np.exp(-z / peer.x)), atol=1e-6)


def test_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = (rng.uniform(size=2000) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    base = LogisticRegression().fit(X[:50] * 3, y[:50])
    try:
        peer = CalibratedClassifierCV(FrozenEstimator(base), method="temperature").fit(X, y)
    except ValueError:
        pytest.skip("this scikit-learn has no temperature scaling: pip install 'scikit-learn>=1.8'")
    p = base.predict_proba(X)[:, 1]
    # CalibratedClassifierCV calibrates margins, here the log-odds.
    np.testing.assert_allclose(TemperatureCalibrator().fit(p, y).calibrate(p), peer.predict_proba(X)[:, 1], atol=1e-6)


def test_a_useless_score_keeps_its_ranking():
    p, y = biased_scores()
    fitted = TemperatureCalibrator().fit(p, 1 - y)
    assert fitted.map_.temperature == 1000.0
    assert np.all(np.diff(fitted.calibrate(np.linspace(0.001, 0.999, 99))) > 0)
