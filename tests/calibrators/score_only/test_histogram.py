import calibration
import numpy as np
import pytest

from mbct.calibrators import HistogramCalibrator
from mbct.errors import ParameterError
from peers import biased_scores


@pytest.mark.parametrize("n_bins", [1, 10, 15])
def test_agrees_with_uncertainty_calibration(n_bins):
    p, y = biased_scores()
    peer = calibration.HistogramCalibrator(len(p), n_bins)
    peer.train_calibration(p, y)
    fresh = np.linspace(0, 1, 777)
    np.testing.assert_allclose(
        HistogramCalibrator(n_bins=n_bins, smoothing=0).fit(p, y).calibrate(fresh), peer.calibrate(fresh), atol=1e-12
    )


def test_equal_width_agrees_with_means_by_hand():
    p, y = biased_scores()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(p))
    ours = HistogramCalibrator(n_bins=8, strategy="equal-width", smoothing=0).fit(p, y, weight)
    for low in np.arange(8) / 8:
        inside = (p > low) & (p <= low + 1 / 8)
        expected = np.average(y[inside], weights=weight[inside])
        assert ours.calibrate(np.array([low + 1 / 16]))[0] == pytest.approx(expected, abs=1e-12)


def test_a_bin_without_rows_gives_its_middle():
    fitted = HistogramCalibrator(n_bins=4, strategy="equal-width").fit(np.array([0.1, 0.2]), np.array([0, 1]))
    assert fitted.calibrate(np.array([0.1, 0.3, 0.99])).tolist() == [0.5, 0.375, 0.875]


def test_the_rate_of_all_rows_is_added_to_each_bin():
    p, y = np.repeat([0.1, 0.9], [4, 6]), np.array([0] * 4 + [1] * 6)
    fitted = HistogramCalibrator(n_bins=2, smoothing=2).fit(p, y)
    np.testing.assert_allclose(fitted.calibrate(np.array([0.1, 0.9])), [(0 + 2 * 0.6) / 6, (6 + 2 * 0.6) / 8])


def test_equal_scores_stay_in_one_bin():
    p = np.repeat([0.1, 0.2, 0.3], [1, 50, 1])
    fitted = HistogramCalibrator(n_bins=10).fit(p, np.tile([0, 1], 26))
    assert len(fitted.map_.values) <= 3
    assert fitted.calibrate(np.array([0.2]))[0] == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_bins": 0}, "n_bins must be a number of at least 1, got 0"),
        ({"strategy": "quantile"}, "strategy must be 'uniform-mass' or 'equal-width', got 'quantile'"),
    ],
)
def test_senseless_parameters_are_named(parameters, message):
    with pytest.raises(ParameterError, match=message):
        HistogramCalibrator(**parameters).fit(*biased_scores(n=50))
