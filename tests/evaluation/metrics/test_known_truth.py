import numpy as np
import pytest

from builders import biased_clicks
from mbct import MBCTCalibrator, certify, metrics


def test_expected_errors_are_the_limits_of_those_with_labels():
    data = biased_clicks(0, 200_000)
    for name, expected in (("pce", "epce"), ("bfgpce", "bfgepce")):
        with_labels = getattr(metrics, name)(data.y, data.p)
        assert float(getattr(metrics, expected)(data.truth, data.p)) == pytest.approx(float(with_labels), abs=0.003)
    assert np.all(metrics.sud(data.truth, data.p)[data.truth < 1] <= 1 / 0.7 + 1e-9)


def test_finer_parts_show_what_cancels():
    truth, p = np.repeat([0.2, 0.6], 50), np.repeat([0.1, 0.7], 50)
    assert float(metrics.epce(truth, p)) == pytest.approx(0.0, abs=1e-12)
    assert float(metrics.bfgepce(truth, p, n_parts=2)) == pytest.approx(0.1)
    assert float(metrics.bfgepce(truth, p, n_parts=2, division="shuffle")) < 0.06
    assert metrics.is_well_calibrated((truth, p), 1e-9)
    weighted = metrics.epce(truth, p, sample_weight=np.repeat([2.0, 0.0], 50))
    assert float(weighted) == pytest.approx(0.1)


def test_a_certified_bin_is_well_calibrated_where_that_is_certain():
    model = MBCTCalibrator("p", preset="fast", max_trees=2).fit(biased_clicks(0, 2_000).frame, "y")
    found = certify(model, biased_clicks(1, 2_000).frame, "y").bins[0]
    assert metrics.is_well_calibrated(found, found.bound)
    assert not metrics.is_well_calibrated(found, found.bound * 0.99)
