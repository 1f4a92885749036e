import calibration
import numpy as np
import pytest

from mbct.stats.debiased_error import debiased_error, debiased_square_error
from mbct.stats.divisions import Bins, atoms_by_prediction, uniform_mass


def _bins(n, n_bins, seed, power=1.0):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return p, (rng.random(n) < p**power).astype(float), n_bins


def test_equals_uncertainty_calibration():
    p, y, n_bins = _bins(3000, 15, 0, power=1.4)
    bins = uniform_mass(atoms_by_prediction(p, y, np.ones(3000)), n_bins)
    peer = calibration.lower_bound_scaling_ce(p, y.astype(int), p=2, debias=True, num_bins=15)
    assert debiased_error(bins) == pytest.approx(peer, rel=1e-12)


def test_is_zero_on_average_where_predictions_are_right():
    found = []
    for seed in range(300):
        p, y, n_bins = _bins(600, 10, seed)
        found.append(debiased_square_error(uniform_mass(atoms_by_prediction(p, y, np.ones(600)), n_bins)))
    assert abs(np.mean(found)) < 4 * np.std(found) / np.sqrt(300)


def test_small_bins_say_nothing():
    assert debiased_error(Bins(np.array([1.0, 0.5]), np.array([1.0, 0.0]), np.array([0.5, 0.4]))) == 0.0
