import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from mbct.calibrators import AffineCalibrator, PlattCalibrator, QuadraticCalibrator, SplineCalibrator
from mbct.calibrators.score_only.counts import ScoreCounts
from mbct.calibrators.score_only.spline import SplineMap, fit_spline
from mbct.errors import ParameterError
from mbct.stats.probabilities import logit, sigmoid
from peers import biased_scores

GRID = np.linspace(0.01, 0.99, 99)


def bent_scores(seed=0, n=4000):
    """Log-odds that rise ever more slowly: a + bz + cz² with c < 0."""
    rng = np.random.default_rng(seed)
    z = rng.normal(-0.5, 1.2, n)
    return sigmoid(z), (rng.uniform(size=n) < sigmoid(0.2 + 0.8 * z - 0.08 * z * z)).astype(float)


def test_affine_without_penalty_is_platt_scaling():
    p, y = biased_scores()
    np.testing.assert_allclose(
        AffineCalibrator(penalty=0).fit(p, y).calibrate(GRID), PlattCalibrator().fit(p, y).calibrate(GRID), atol=1e-9
    )


def test_quadratic_without_penalty_is_logistic_regression_on_log_odds_and_their_squares():
    p, y = bent_scores()
    design = np.column_stack([logit(p), logit(p) ** 2])
    peer = LogisticRegression(C=np.inf, tol=1e-12, max_iter=10_000).fit(design, y)
    inside = p[::40]
    expected = peer.predict_proba(np.column_stack([logit(inside), logit(inside) ** 2]))[:, 1]
    np.testing.assert_allclose(QuadraticCalibrator(penalty=0).fit(p, y).calibrate(inside), expected, atol=1e-7)


def test_the_prior_is_the_one_stated():
    p, y = bent_scores(n=60)
    counts = ScoreCounts.of_rows(p, y, np.ones(60))
    z, knots = logit(counts.score), np.array([-2.0, -0.5, 1.0])

    def objective(beta):
        g = SplineMap(float(z.mean()), beta[3], knots, beta[:3]).log_odds(z)
        steps = np.diff(beta[:3])
        prior = 3.0 * (beta[3] ** 2 + (np.mean(beta[:3]) - 1.0) ** 2 + 2 * np.sum(steps**2))
        return np.sum(np.logaddexp(0, g) - counts.positive * g) + 0.5 * prior

    peer = minimize(objective, [1, 1, 1, 0], method="L-BFGS-B", bounds=[(0, None)] * 3 + [(None, None)], tol=1e-14)
    found = fit_spline(counts, knots, 3.0)
    np.testing.assert_allclose(np.append(found.slopes, found.shift), peer.x, atol=1e-4)


def test_few_rows_stay_near_the_identity_and_many_do_not():
    for method in (AffineCalibrator, QuadraticCalibrator, SplineCalibrator):
        few = method().fit(np.array([0.3, 0.7]), np.array([0, 1])).calibrate(GRID)
        assert np.max(np.abs(few - GRID)) < 0.15
        p, y = biased_scores(n=50_000)
        free, drawn = (method(penalty=penalty).fit(p, y).calibrate(GRID) for penalty in (0.0, 1.0))
        np.testing.assert_allclose(drawn, free, atol=0.02)


def test_the_spline_follows_a_shape_that_a_quadratic_cannot():
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, 20_000)
    truth = sigmoid(2.0 * np.tanh(z) + 0.2 * z)
    y = rng.uniform(size=len(z)) < truth
    spline, quadratic = (m().fit(sigmoid(z), y) for m in (SplineCalibrator, QuadraticCalibrator))
    assert len(spline.map_.knots) >= 5
    assert np.mean(np.abs(spline.calibrate(sigmoid(z)) - truth)) < 0.5 * np.mean(
        np.abs(quadratic.calibrate(sigmoid(z)) - truth)
    )


def test_knots_are_not_spent_on_a_straight_line():
    p, y = biased_scores(seed=3)
    line = np.random.default_rng(0).uniform(size=len(p)) < sigmoid(0.5 + 0.7 * logit(p))
    assert len(SplineCalibrator().fit(p, line).map_.knots) <= 2
    assert len(SplineCalibrator().fit(p[:8], y[:8] * 0 + [0, 1] * 4).map_.knots) == 1


@pytest.mark.parametrize("parameters", [{"penalty": -1.0}, {"n_folds": 1}])
def test_senseless_parameters_are_named(parameters):
    with pytest.raises(ParameterError, match=next(iter(parameters))):
        SplineCalibrator(**parameters).fit(*biased_scores(n=50))
