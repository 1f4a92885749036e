import math

import calibration
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta

from mbct.stats.divisions import Bins, atoms_by_prediction, rows_as_bins, uniform_mass
from mbct.stats.partition_error import (
    calibration_n,
    debiased_error,
    debiased_square_error,
    field_error,
    finer_partition_error,
    norm_of_errors,
    partition_error,
    prediction_ratio,
    relative_field_error,
    true_calibration_error,
)


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


VALUES = Bins(np.array([10.0, 5.0, 5.0, 0.0]), np.array([2.0, 1.0, 0.0, 0.0]), np.array([3.0, 0.5, 0.4, 0.0]))


def test_field_ece_by_hand():
    assert field_error(VALUES) == pytest.approx((1.0 + 0.5 + 0.4) / 20)


def test_field_rce_with_and_without_values_that_have_no_positive():
    both = relative_field_error(VALUES)
    assert both.seen == pytest.approx((10 * 0.5 + 5 * 0.5) / 15)
    assert both.all_values == pytest.approx((10 * 0.5 + 5 * 0.5 + 5 * 0.4) / 20)
    assert both.unseen_share == 0.25


def test_no_positive_at_all():
    nothing = Bins(np.array([4.0]), np.array([0.0]), np.array([0.8]))
    assert math.isnan(relative_field_error(nothing).seen)
    assert relative_field_error(nothing).all_values == 0.8
    assert math.isnan(calibration_n(nothing)[0])


def test_cal_n_by_hand():
    value, left_out = calibration_n(VALUES)
    assert value == pytest.approx(math.sqrt((0.5**2 + 1.0**2) / 2))
    assert left_out == 1


def test_pce_and_pud_by_hand():
    bins = Bins(np.array([10.0, 4.0, 0.0]), np.array([2.0, 3.0, 0.0]), np.array([3.0, 1.5, 0.0]))
    assert partition_error(bins) == pytest.approx([0.1, 0.375, 0.0])
    assert prediction_ratio(bins)[:2] == pytest.approx([1.5, 0.5])
    assert math.isnan(prediction_ratio(bins)[2])


def test_bfgpce_shows_what_pce_hides():
    p, y = np.full(8, 0.5), np.array([1.0, 1, 1, 1, 0, 0, 0, 0])
    rows = rows_as_bins(p, y, np.ones(8))
    whole = Bins(*(np.array([sums.sum()]) for sums in (rows.count, rows.label, rows.pred)))
    assert partition_error(whole)[0] == 0.0
    assert finer_partition_error(rows, 2) == 0.5
    assert finer_partition_error(rows, 1) == 0.0


def test_norms_grow_to_the_maximum():
    error, weight = np.array([0.1, 0.2, 0.9]), np.array([1.0, 3.0, 0.0])
    norms = [norm_of_errors(error, weight, p) for p in (1, 2, 8, math.inf)]
    assert norms[0] == pytest.approx(0.175)
    assert norms[1] == pytest.approx(math.sqrt((0.01 + 3 * 0.04) / 4))
    assert norms == sorted(norms)
    assert norms[-1] == 0.2


@pytest.mark.paper
@pytest.mark.parametrize(
    ("a", "power", "norm", "expected"),
    [
        (0.2, 2, 1, 0.0819),
        (0.2, 2, 2, 0.1215),
        (0.4, 2, 1, 0.1212),
        (0.4, 2, 2, 0.1507),
        (0.6, 3, 1, 0.2086),
        (0.6, 3, 2, 0.2468),
    ],
)
def test_settings_of_the_paper_follow_from_equation_tce(a, power, norm, expected):
    """Checked by integration: for Beta(0.2, 0.7) and c² the printed 0.0868 is neither the 1- nor the 2-norm."""
    law = beta(a, 0.7)
    integral = quad(lambda q: (law.ppf(q) - law.ppf(q) ** power) ** norm, 0, 1, limit=200)[0]
    assert integral ** (1 / norm) == pytest.approx(expected, abs=6e-5)
    c = law.ppf((np.arange(200_000) + 0.5) / 200_000)
    assert true_calibration_error(c**power, c, np.ones(len(c)), norm) == pytest.approx(expected, abs=1e-4)


def test_infinite_norm_is_the_largest_gap():
    assert true_calibration_error(np.array([0.1, 0.5]), np.array([0.2, 0.9]), np.ones(2), math.inf) == 0.4
