"""Agreement with netcal 1.4.0 and MCGrad 0.1.5, which need torch: golden values, from the snippet below.

import numpy as np, pandas as pd
from netcal.metrics import ECE, MCE
from mcgrad.metrics import (MulticalibrationError, calibration_ratio, ecce, ecce_pvalue, ecce_sigma,
                            expected_calibration_error, normalized_entropy)
y, p, w, by = golden_sample()  # below
print(ECE(15).measure(p, y), MCE(15).measure(p, y), expected_calibration_error(y, p, num_bins=15, sample_weight=w))
print(ecce(y, p), ecce_sigma(y, p), ecce_pvalue(y, p), ecce(y, p, w), ecce_sigma(y, p, w))
print(normalized_entropy(y, p), normalized_entropy(y, p, w), calibration_ratio(y, p), calibration_ratio(y, p, w))
for weight in (None, "w"):
    for depth in (1, 2):
        found = MulticalibrationError(
            pd.DataFrame({"y": y, "p": p, "w": w, **by}), "y", "p", weight_column=weight, max_depth=depth,
            categorical_segment_columns=["site", "half"], max_values_per_segment_feature=10,
            precision_dtype="float64")
        print(found.mce, found.mce_sigma, found.mce_pvalue, len(found.segments_ecce))
"""

import numpy as np
import pytest

import mbct.metrics as metrics


def golden_sample():
    i = np.arange(3000)
    p = (i * 0.6180339887498949) % 1
    y = ((i * 0.7548776662466927) % 1 < p**1.3).astype(int)
    site = np.array(["a", "b", "c", "d"])[(i * 7 // 5) % 4]
    y = np.where((site == "a") & (i % 5 == 0), 1, y)
    return y, p, 1.0 + i % 3, {"site": site, "half": np.where(i % 2 == 0, "even", "odd")}


def test_ece_and_mce_equal_netcal():
    y, p, _, _ = golden_sample()
    assert metrics.ece(y, p, strategy="equal-width") == pytest.approx(0.041564312703495726, rel=1e-12)
    assert metrics.mce(y, p, strategy="equal-width") == pytest.approx(0.07996313181069975, rel=1e-12)


def test_weighted_ece_equals_mcgrad():
    y, p, w, _ = golden_sample()
    found = metrics.ece(y, p, strategy="equal-width", sample_weight=w)
    assert found == pytest.approx(0.0412308283355444, rel=1e-12)


def test_ecce_equals_mcgrad():
    y, p, w, _ = golden_sample()
    plain, weighted = metrics.ecce(y, p), metrics.ecce(y, p, sample_weight=w)
    assert plain == pytest.approx(0.03933897963654733, rel=1e-9)
    assert plain.scaled == pytest.approx(5.278099285627318, rel=1e-9)
    assert plain.p_value == pytest.approx(5.221229566476637e-07, rel=1e-6)
    assert weighted == pytest.approx(0.039488321013985264, rel=1e-9)
    assert weighted.scaled == pytest.approx(4.905232916192164, rel=1e-9)


def test_normalised_entropy_and_pcoc_equal_mcgrad():
    # MCGrad takes the entropy of the rate in single precision.
    y, p, w, _ = golden_sample()
    assert metrics.normalised_entropy(y, p) == pytest.approx(0.7672614777114796, rel=1e-7)
    assert metrics.normalised_entropy(y, p, sample_weight=w) == pytest.approx(0.7609672699128504, rel=1e-7)
    assert metrics.pcoc(y, p) == pytest.approx(1.077513212214238, rel=1e-9)
    assert metrics.pcoc(y, p, sample_weight=w) == pytest.approx(1.0775654905872178, rel=1e-9)


@pytest.mark.parametrize(
    ("weighted", "depth", "value", "sigmas", "p_value", "n_segments"),
    [
        (False, 1, 0.046433290923127826, 6.229940936825893, 1.8664443324212243e-09, 7),
        (False, 2, 0.04864187327902445, 6.526265779580005, 2.6971846978085523e-10, 15),
        (True, 1, 0.0463129193291166, 5.752983426610569, 3.5072833748373e-08, 7),
        (True, 2, 0.04817372325593719, 5.984132192575759, 8.701863118965036e-09, 15),
    ],
)
def test_multicalibration_error_equals_mcgrad(weighted, depth, value, sigmas, p_value, n_segments):
    y, p, w, by = golden_sample()
    found = metrics.multicalibration_error(y, p, by, depth=depth, sample_weight=w if weighted else None)
    assert found == pytest.approx(value, rel=1e-9)
    assert found.scaled == pytest.approx(sigmas, rel=1e-9)
    assert found.worst.p_value == pytest.approx(p_value, rel=1e-6)
    assert len(found.segments) == n_segments
