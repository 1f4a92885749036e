import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp

from mbct.calibrators import MatrixScalingCalibrator, TemperatureCalibrator
from mbct.calibrators.persistence import dumps, loads
from mbct.errors import ParameterError
from peers import biased_scores


def four_classes(seed=0, n=1500):
    """Scores that are too sure, with one class confused with another."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 4)) * 2.0
    truth = np.exp(log_softmax(0.5 * z + np.column_stack([0.3 * z[:, 1], 0 * z[:, :3]]) + [0.4, 0, 0, -0.3], axis=1))
    y = (rng.uniform(size=(n, 1)) > truth.cumsum(axis=1)).sum(axis=1)
    return np.exp(log_softmax(z, axis=1)).astype(np.float32).astype(float), y


def by_definition(p, y, structure):
    """The published objective: temperature, mixture with the uniform distribution, then mean loss and penalties."""
    n, k = p.shape
    x = np.log(p)

    def loss(z):
        return np.mean(logsumexp(z, axis=1) - z[np.arange(n), y])

    a = minimize(lambda a: loss(a[0] * x), [1.0], tol=1e-12).x[0]
    x = np.log(n / (n + 1) * np.exp(log_softmax(a * x, axis=1)) + 1 / (n + 1) / k)

    def objective(flat):
        move = flat.reshape(k, k + 1)
        diagonal, off = np.diag(move), move[:, :k] - np.diag(np.diag(move))
        off = off if structure == "matrix" else 0 * off
        penalty = k / n * (np.sum(move[:, k] ** 2) + np.sum(diagonal**2)) + k * (k - 1) / n * np.sum(off**2)
        return loss(x + x @ (np.diag(diagonal) + off).T + move[:, k]) + penalty

    move = minimize(objective, np.zeros(k * (k + 1)), tol=1e-10).x.reshape(k, k + 1)
    off = move[:, :k] - np.diag(np.diag(move))
    weights = np.eye(k) + np.diag(np.diag(move)) + (off if structure == "matrix" else 0.0)
    return np.exp(log_softmax(x @ weights.T + move[:, k], axis=1))


@pytest.mark.parametrize("structure", ["vector", "matrix"])
def test_it_minimises_the_published_objective(structure):
    p, y = four_classes(n=400)
    ours = MatrixScalingCalibrator(structure=structure).fit(p, y).calibrate(p)
    np.testing.assert_allclose(ours, by_definition(p, y, structure), atol=1e-5)


def test_one_temperature_for_two_classes_is_temperature_scaling():
    p, y = biased_scores()
    ours = MatrixScalingCalibrator(structure="temperature").fit(p, y)
    plain = TemperatureCalibrator().fit(p, y)
    assert ours.map_.inverse_temperature == pytest.approx(1 / plain.map_.temperature, rel=1e-7)
    np.testing.assert_allclose(ours.calibrate(p), plain.calibrate(p), atol=1e-3)


def test_it_lowers_the_loss_on_fresh_rows_in_the_order_of_its_freedom():
    p, y = four_classes()
    fresh, truth = four_classes(seed=1, n=6000)
    base = np.mean(np.log(fresh[np.arange(6000), truth]))
    scores = [
        MatrixScalingCalibrator(structure=s).fit(p, y).score(fresh, truth) for s in ("temperature", "vector", "matrix")
    ]
    assert base < scores[0] < scores[1] < scores[2]


def test_weights_are_copies_and_a_saved_model_is_the_same():
    p, y = four_classes(n=300)
    weight = np.random.default_rng(0).integers(0, 4, len(p))
    rows = np.repeat(np.arange(len(p)), weight)
    fitted = MatrixScalingCalibrator().fit(p, y, weight)
    copied = MatrixScalingCalibrator().fit(p[rows], y[rows])
    np.testing.assert_allclose(fitted.calibrate(p), copied.calibrate(p), rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(loads(dumps(fitted)).calibrate(p), fitted.calibrate(p))


def test_separable_labels_stay_within_what_the_rows_can_tell():
    p = np.repeat(np.eye(3) * 0.8 + 0.2 / 3, 20, axis=0)
    p /= p.sum(axis=1, keepdims=True)
    y = np.repeat([0, 1, 2], 20)
    found = MatrixScalingCalibrator(structure="temperature").fit(p, y).calibrate(p)
    assert found.max() == pytest.approx(1 - 2 / 3 / 61, abs=1e-9)


def test_senseless_parameters_are_named():
    p, y = four_classes(n=50)
    with pytest.raises(ParameterError, match="structure='full' must be"):
        MatrixScalingCalibrator(structure="full").fit(p, y)
    with pytest.raises(ParameterError, match="penalty"):
        MatrixScalingCalibrator(penalty=-1).fit(p, y)


def test_scores_far_below_a_billionth_still_tell_classes_apart():
    """Naive Bayes says 1e-40 and 1e-80: held at 1e-9 both are the same, held lower they are not."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(900, 3)) * 60.0
    y = (rng.uniform(size=(900, 1)) > np.exp(log_softmax(z / 30.0, axis=1)).cumsum(axis=1)).sum(axis=1)
    p = np.exp(log_softmax(z, axis=1))
    fitted = MatrixScalingCalibrator(structure="temperature").fit(p, y)
    assert fitted.map_.floor < 1e-38
    assert fitted.map_.inverse_temperature == pytest.approx(1 / 30, rel=0.15)
    assert MatrixScalingCalibrator().fit(np.clip(p, 1e-3, 1.0), y).map_.floor == 1e-9
