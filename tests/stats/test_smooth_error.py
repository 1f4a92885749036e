import numpy as np
import pytest
import relplot

from mbct.stats.divisions import atoms_by_prediction
from mbct.stats.expected_error import residual_spectrum, smooth_error, smooth_error_at


def _sample(n, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.5, 2, n)
    q = np.clip(p + 0.15 * np.sin(8 * p), 0, 1)
    return p, (rng.random(n) < q).astype(float)


def _by_quadrature(p, y, width):
    """∫|mean residual smoothed by the Gaussian and its images beyond 0 and 1| dt."""
    t = np.linspace(0, 1, 2001)[:, None]
    total = np.zeros(2001)
    for shift in range(-6, 7):
        for image in (2 * shift + p, 2 * shift - p):
            total += (np.exp(-((t - image) ** 2) / (2 * width**2)) * (p - y)).mean(axis=1)
    return np.trapezoid(np.abs(total), t[:, 0]) / (np.sqrt(2 * np.pi) * width)


@pytest.mark.parametrize("width", [0.02, 0.1, 0.7])
def test_given_width_equals_quadrature(width):
    p, y = _sample(300)
    atoms = atoms_by_prediction(p, y, np.ones(300))
    assert smooth_error_at(residual_spectrum(atoms), width) == pytest.approx(_by_quadrature(p, y, width), rel=1e-5)


@pytest.mark.parametrize("n", [200, 2000, 20_000])
def test_fixed_point(n):
    p, y = _sample(n)
    atoms = atoms_by_prediction(p, y, np.ones(n))
    error = smooth_error(atoms)
    assert smooth_error_at(residual_spectrum(atoms), error) == pytest.approx(error, rel=1e-4)


@pytest.mark.parametrize("n", [500, 5000, 50_000])
@pytest.mark.parametrize("width", [0.02, 0.1, None])
def test_equals_relplot_on_a_fine_mesh(monkeypatch, n, width):
    """relplot sums over 200 points, whose error is of the order of one over their number; of 40,000 little is left.

    Predictions stay off 0 and 1: what relplot's grid puts on its first or last point, its reflection counts half, so
    that it is 1 to 2 % above the integral (that of the quadrature above) where many predictions lie there.
    """
    monkeypatch.setattr(relplot.config, "smECE_mesh_pts", 40_000)
    p, y = _sample(n)
    p = 0.02 + 0.96 * p
    atoms = atoms_by_prediction(p, y, np.ones(n))
    width = smooth_error(atoms) if width is None else width
    ours = smooth_error_at(residual_spectrum(atoms), width)
    assert ours == pytest.approx(relplot.metrics.smECE_sigma(p, y, width), rel=1e-4)


def test_width_equals_relplots_up_to_its_ten_halvings():
    p, y = _sample(5000)
    _, width = relplot.smECE(p, y, return_width=True)
    assert smooth_error(atoms_by_prediction(p, y, np.ones(5000))) == pytest.approx(width, abs=2.0**-10 + 0.0002)


def test_falls_as_the_kernel_widens_to_the_bias():
    p, y = _sample(3000)
    atoms = atoms_by_prediction(p, y, np.ones(3000))
    errors = [smooth_error_at(residual_spectrum(atoms), width) for width in (0.005, 0.02, 0.1, 0.5, 3.0)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] == pytest.approx(abs(p.mean() - y.mean()))


def test_extremes():
    sure = np.array([0.0, 1.0, 1.0])
    assert smooth_error(atoms_by_prediction(sure, sure, np.ones(3))) == pytest.approx(0.0, abs=1e-12)
    assert smooth_error(atoms_by_prediction(sure, 1.0 - sure, np.ones(3))) > 0.3
