import numpy as np
import pytest
from scipy.optimize import minimize

from mbct.calibrators.score_only.counts import ScoreCounts
from mbct.calibrators.score_only.logistic import fit_logistic


def counts(seed, n=60):
    rng = np.random.default_rng(seed)
    total = rng.integers(1, 9, n).astype(float)
    return ScoreCounts(np.sort(rng.uniform(size=n)), np.floor(total * rng.uniform(size=n)), total)


def loss(beta, features, rows):
    z = features @ beta[:-1] + beta[-1]
    return np.sum(rows.total * np.logaddexp(0, z) - rows.positive * z)


@pytest.mark.parametrize("seed", range(8))
def test_finds_the_constrained_optimum(seed):
    rng = np.random.default_rng(seed)
    rows = counts(seed)
    features = rng.normal(size=(len(rows), 2))
    found = fit_logistic(features, rows, np.array([1.0, 1.0, 0.0]))
    peer = minimize(
        loss,
        np.array([1.0, 1.0, 0.0]),
        args=(features, rows),
        method="L-BFGS-B",
        bounds=[(0, None), (0, None), (None, None)],
        options={"ftol": 1e-15, "gtol": 1e-9},
    )
    np.testing.assert_allclose(found, peer.x, atol=1e-5)
    assert loss(found, features, rows) <= peer.fun + 1e-9


def test_a_slope_that_would_turn_the_ranking_is_zero():
    rows = ScoreCounts(np.array([0.2, 0.8]), np.array([80.0, 20.0]), np.array([100.0, 100.0]))
    slope, intercept = fit_logistic(rows.score[:, None], rows, np.array([1.0, 0.0]))
    assert slope == 0.0
    assert intercept == pytest.approx(0.0, abs=1e-12)


def test_a_constant_feature_keeps_its_slope():
    rows = ScoreCounts(np.array([0.3]), np.array([25.0]), np.array([100.0]))
    slope, intercept = fit_logistic(np.array([[2.0]]), rows, np.array([1.0, 0.0]))
    assert slope == 1.0
    assert intercept == pytest.approx(np.log(1 / 3) - 2.0)


def test_separable_labels_end_in_a_finite_optimum():
    rows = ScoreCounts(np.array([0.1, 0.9]), np.array([0.0, 5.0]), np.array([5.0, 5.0]))
    beta = fit_logistic(np.array([[-1.0], [1.0]]), rows, np.array([1.0, 0.0]))
    assert np.all(np.isfinite(beta))
    assert 5.0 < beta[0] < 50.0


def test_the_scale_of_the_weights_does_not_matter():
    rows = counts(0)
    tiny = ScoreCounts(rows.score, rows.positive * 1e-8, rows.total * 1e-8)
    np.testing.assert_allclose(
        fit_logistic(tiny.score[:, None], tiny, np.array([1.0, 0.0])),
        fit_logistic(rows.score[:, None], rows, np.array([1.0, 0.0])),
        rtol=1e-7,
    )
