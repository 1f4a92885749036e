import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from mbct.calibrators import AffineCalibrator, CentredIsotonicCalibrator, IsotonicCalibrator
from mbct.stats.probabilities import logit
from peers import biased_scores


def test_agrees_with_scikit_learn():
    p, y = biased_scores()
    p = p.round(3)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(p))
    peer = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(p, y, weight)
    fresh = np.concatenate([np.linspace(0, 1, 1001), p])
    ours = IsotonicCalibrator(smoothing=0).fit(p, y, weight)
    np.testing.assert_allclose(ours.calibrate(fresh), peer.predict(fresh), atol=1e-12)
    assert len(ours.map_.knots) < 200


def test_centred_knots_are_the_centres_of_the_blocks():
    p = np.array([0.1, 0.2, 0.3, 0.4, 0.6, 0.8])
    y = np.array([0, 1, 0, 1, 1, 1])
    fitted = CentredIsotonicCalibrator(smoothing=0).fit(p, y).map_
    # Blocks by hand: {0.1} of rate 0, {0.2, 0.3} of rate 1/2, the rest of rate 1.
    np.testing.assert_allclose(fitted.knots, [0.0, 0.1, 0.25, 0.6, 1.0])
    np.testing.assert_allclose(fitted.values, [0.0, 0.0, 0.5, 1.0, 1.0])


def test_blocks_have_a_prior_in_log_odds_around_affine_scaling():
    p, y = np.repeat([0.05, 0.4, 0.9], [8, 10, 6]), np.array([0] * 8 + [1] * 4 + [0] * 6 + [1] * 6)
    affine = AffineCalibrator().fit(p, y).calibrate(np.array([0.05, 0.4, 0.9]))
    found = IsotonicCalibrator(smoothing=2.0).fit(p, y).calibrate(np.array([0.05, 0.4, 0.9]))
    total, positive = np.array([8, 10, 6]), np.array([0, 4, 6])
    # At the maximum the derivative of likelihood and prior is zero.
    np.testing.assert_allclose(positive - total * found, 2.0 * (logit(found) - logit(affine)), atol=1e-9)


def test_a_certain_mistake_costs_little():
    p, y = biased_scores(n=300)
    fresh_p, fresh_y = biased_scores(seed=1)
    safe, plain = (IsotonicCalibrator(smoothing=s).fit(p, y).score(fresh_p, fresh_y) for s in (1.0, 0.0))
    assert safe > plain + 0.05
    assert safe > AffineCalibrator().fit(p, y).score(fresh_p, fresh_y) - 0.02


def centred_by_definition(x, y, weight):
    """Oron and Flournoy's algorithm as they state it, one violation after the other.

    While some y_j ≥ y_{j+1}, the two points become one, at the weighted means of their x and of their y.
    """
    points = [(float(a), float(b), float(w)) for a, b, w in zip(x, y, weight, strict=True)]
    while True:
        falls = [j for j in range(len(points) - 1) if points[j][1] >= points[j + 1][1] - 1e-12]
        if not falls:
            return points
        (x0, y0, w0), (x1, y1, w1) = points[falls[0]], points[falls[0] + 1]
        w = w0 + w1
        points[falls[0] : falls[0] + 2] = [((w0 * x0 + w1 * x1) / w, (w0 * y0 + w1 * y1) / w, w)]


@pytest.mark.parametrize("seed", range(5))
def test_centred_isotonic_agrees_with_its_definition(seed):
    p, y = biased_scores(seed, n=300)
    p = p.round(2).clip(0.01, 0.99)
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, len(p))
    levels = np.unique(p)
    mass = np.array([weight[p == v].sum() for v in levels])
    rates = np.array([(weight * y)[p == v].sum() for v in levels]) / mass
    points = np.array(centred_by_definition(levels, rates, mass))
    fitted = CentredIsotonicCalibrator(smoothing=0).fit(p, y, weight).map_
    inner = (fitted.knots > 0.0) & (fitted.knots < 1.0)
    assert len(points) > 5
    np.testing.assert_allclose(fitted.knots[inner], points[:, 0], rtol=1e-12)
    np.testing.assert_allclose(fitted.values[inner], points[:, 1], atol=1e-12)


def test_centred_isotonic_is_near_isotonic_on_much_data():
    p, y = biased_scores(n=50_000)
    fresh = np.linspace(0.05, 0.9, 100)
    centred, plain = (c.fit(p, y).calibrate(fresh) for c in (CentredIsotonicCalibrator(), IsotonicCalibrator()))
    assert np.max(np.abs(centred - plain)) < 0.05
    assert np.mean(np.abs(centred - plain)) < 0.01


@pytest.mark.parametrize("ends", [(0.0, 1.0), (0.0, 0.5), (0.5, 1.0)])
def test_centred_isotonic_rises_from_end_to_end(ends):
    fitted = CentredIsotonicCalibrator().fit(np.repeat(ends, 10), np.tile([0, 1, 1, 1, 1], 4)[::-1])
    assert np.all(np.diff(fitted.calibrate(np.linspace(0, 1, 101))) > 0)
