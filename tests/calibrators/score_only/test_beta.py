import betacal.beta_calibration
import numpy as np
import pytest
from betacal import BetaCalibration

from mbct.calibrators import BetaCalibrator
from mbct.errors import ParameterError
from peers import ExactLogisticRegression, biased_scores


@pytest.mark.parametrize("variant", ["abm", "ab", "am"])
def test_agrees_with_betacal(variant, monkeypatch):
    monkeypatch.setattr(betacal.beta_calibration, "LogisticRegression", ExactLogisticRegression)
    p, y = biased_scores()
    peer = BetaCalibration(variant).fit(p, y)
    ours = BetaCalibrator(variant=variant).fit(p, y)
    np.testing.assert_allclose(ours.calibrate(p), peer.predict(p), atol=1e-6)


@pytest.mark.parametrize(
    ("held", "truth"),
    [("a", lambda p: 0.05 + 4.5 * np.maximum(p - 0.8, 0)), ("b", lambda p: 0.2 + 0.5 * np.minimum(p, 0.3) / 0.3)],
)
def test_agrees_with_betacal_where_a_parameter_must_be_held(held, truth, monkeypatch):
    monkeypatch.setattr(betacal.beta_calibration, "LogisticRegression", ExactLogisticRegression)
    rng = np.random.default_rng(4)
    p = rng.uniform(0.01, 0.99, 4000)
    y = (rng.uniform(size=4000) < truth(p)).astype(float)
    peer = BetaCalibration("abm").fit(p, y)
    ours = BetaCalibrator().fit(p, y)
    assert getattr(ours.map_, held) == 0.0
    np.testing.assert_allclose(ours.calibrate(p), peer.predict(p), atol=1e-6)


def test_am_has_equal_slopes_and_ab_its_midpoint_at_one_half():
    p, y = biased_scores()
    am = BetaCalibrator(variant="am").fit(p, y).map_
    assert am.a == am.b
    ab = BetaCalibrator(variant="ab").fit(p, y)
    assert ab.calibrate(np.array([0.5]))[0] == pytest.approx(0.5)


def test_an_unknown_variant_is_named():
    with pytest.raises(ParameterError, match="variant must be 'abm', 'ab' or 'am', got 'xyz'"):
        BetaCalibrator(variant="xyz").fit(*biased_scores(n=50))
