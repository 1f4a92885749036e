import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta

from mbct.stats.true_error import true_calibration_error


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
