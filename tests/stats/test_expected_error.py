import calibration
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbct.stats.divisions import atoms_by_prediction, equal_width, uniform_mass
from mbct.stats.expected_error import ece_of_atoms, ece_of_bins, ece_of_rows, ece_sweep_of_rows, sweep_bins


def _sample(n, seed=0, power=1.5):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.6, 1.5, n)
    return p, (rng.random(n) < p**power).astype(float)


@pytest.mark.parametrize("norm", [1, 2, 3])
def test_ece_equals_uncertainty_calibration(norm):
    p, y = _sample(3000)
    peer = calibration.lower_bound_scaling_ce(p, y.astype(int), p=norm, debias=False, num_bins=15)
    assert ece_of_rows(p, y, np.ones(3000), 15, norm) == pytest.approx(peer, rel=1e-12)
    peer_width = calibration.lower_bound_scaling_ce(
        p, y.astype(int), p=norm, debias=False, num_bins=15, binning_scheme=calibration.get_equal_prob_bins
    )
    assert ece_of_bins(equal_width(atoms_by_prediction(p, y, np.ones(3000)), 15), norm) == pytest.approx(
        peer_width, rel=1e-12
    )


def _sweep_by_definition(p, y, w):
    """The largest b so that every b' ≤ b keeps the label rates in order, tried one after another."""
    atoms = atoms_by_prediction(p, y, w)
    best = 1
    for b in range(2, int(w.sum()) + 1):
        rate = uniform_mass(atoms, b).label
        if np.any(np.diff(rate) < -1e-9 * w.sum() / b):
            break
        best = b
    return best


@given(
    n=st.integers(1, 60),
    seed=st.integers(0, 30),
    ties=st.sampled_from([0, 4, 12]),
    sharpness=st.sampled_from([1.0, 4.0, 30.0]),
)
@settings(max_examples=200, deadline=None)
def test_sweep_finds_the_number_of_bins_of_its_definition(n, seed, ties, sharpness):
    rng = np.random.default_rng(seed)
    p = rng.random(n) if ties == 0 else rng.integers(0, ties, n) / ties
    y = (rng.random(n) < 1 / (1 + np.exp(-sharpness * (p - 0.5)))).astype(float)
    w = rng.integers(1, 4, n).astype(float)
    assert sweep_bins(atoms_by_prediction(p, y, w)) == _sweep_by_definition(p, y, w)


def test_sweep_of_a_worked_example():
    # 0, 1, 1, 1: halves have the rates 1/2, 1; thirds (0 + 1/3)/(4/3) = 1/4, 1, 1; quarters 0, 1, 1, 1: all in order.
    p, y = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.0, 1.0, 1.0, 1.0])
    assert sweep_bins(atoms_by_prediction(p, y, np.ones(4))) == 4
    # 0, 1, 0, 1: halves 1/2, 1/2; thirds (0 + 1/3)/(4/3) = 1/4, (2/3 + 0)/(4/3) = 1/2, 3/4; quarters are out of order.
    y = np.array([0.0, 1.0, 0.0, 1.0])
    assert sweep_bins(atoms_by_prediction(p, y, np.ones(4))) == 3
    assert ece_sweep_of_rows(p, y, np.ones(4), 1.0) == pytest.approx(ece_of_rows(p, y, np.ones(4), 3, 1.0), rel=1e-12)


def test_perfect_ranking_sweeps_to_one_bin_for_each_row():
    p = np.linspace(0.01, 0.99, 200_000)
    y = (p > 0.4).astype(float)
    atoms = atoms_by_prediction(p, y, np.ones(len(p)))
    assert sweep_bins(atoms) == 200_000
    assert ece_of_atoms(atoms, 200_000, 1.0) == pytest.approx(np.mean(np.abs(p - y)))


def test_one_swap_in_a_perfect_ranking_does_not_make_the_sweep_quadratic():
    p = np.linspace(0.01, 0.99, 200_000)
    y = (p > 0.4).astype(float)
    swapped = int(np.argmax(y))
    y[swapped - 1], y[swapped] = 1.0, 0.0
    found = sweep_bins(atoms_by_prediction(p, y, np.ones(len(p))))
    assert found > 10_000


@given(n_bins=st.integers(1, 30), seed=st.integers(0, 20))
@settings(deadline=None)
def test_ece_lies_between_the_bias_and_the_mean_absolute_error(n_bins, seed):
    p, y = _sample(100, seed)
    error = ece_of_rows(p, y, np.ones(100), n_bins, 1.0)
    assert abs(p.mean() - y.mean()) - 1e-12 <= error <= np.mean(np.abs(p - y)) + 1e-12
