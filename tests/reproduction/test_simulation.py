"""True calibration errors of the simulations against closed forms."""

import numpy as np
import pytest
from scipy.special import beta

from mbct.metrics import tce
from reproduction.simulation.settings import SIMULATIONS

BY_NAME = {simulation.name: simulation for simulation in SIMULATIONS}


def moment(simulation, power: float) -> float:
    return beta(simulation.a + power, simulation.b) / beta(simulation.a, simulation.b)


@pytest.mark.parametrize("name", ["main", "appendix-square"])
def test_square_truth(name):
    s = BY_NAME[name]
    assert s.tce(1) == pytest.approx(moment(s, 1) - moment(s, 2), abs=1e-10)
    assert s.tce(2) ** 2 == pytest.approx(moment(s, 2) - 2 * moment(s, 3) + moment(s, 4), abs=1e-10)


def test_cubic_truth():
    s = BY_NAME["appendix-cube"]
    assert s.tce(1) == pytest.approx(moment(s, 1) - moment(s, 3), abs=1e-10)
    assert s.tce(2) ** 2 == pytest.approx(moment(s, 2) - 2 * moment(s, 4) + moment(s, 6), abs=1e-10)


@pytest.mark.paper
def test_the_printed_error_is_neither_norm():
    s = BY_NAME["main"]
    assert s.tce(1) == pytest.approx(0.0819, abs=5e-5)
    assert s.tce(2) == pytest.approx(0.1215, abs=5e-5)
    assert min(abs(s.tce(p) - s.printed_tce) for p in (1, 2)) > 0.004


def test_the_cancelling_error_cancels():
    s = BY_NAME["cancelling"]
    assert abs(s.bias()) < 1e-10
    assert s.tce(1) > 0.05


@pytest.mark.parametrize("simulation", SIMULATIONS, ids=lambda s: s.name)
def test_draws_follow_the_law(simulation):
    p, y = simulation.draw(200_000, np.random.default_rng(0))
    assert float(tce(simulation.truth(p), p)) == pytest.approx(simulation.tce(2), rel=0.02)
    assert y.mean() == pytest.approx(p.mean() - simulation.bias(), abs=0.005)
