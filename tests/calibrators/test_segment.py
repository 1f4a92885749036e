import numpy as np
import pandas as pd
import polars as pl
import pytest

from mbct.calibrators import PlattCalibrator, SegmentCalibrator
from mbct.errors import DataError, ParameterError


def segments(seed=0, n=3000):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.02, 0.98, n)
    site = rng.choice(["a", "b", "rare"], n, p=[0.5, 0.48, 0.02])
    y = (rng.uniform(size=n) < np.where(site == "a", p**2, np.sqrt(p))).astype(int)
    return pd.DataFrame({"p": p, "site": site, "x": rng.normal(size=n)}), y


def test_a_segment_is_what_the_method_alone_makes_of_it():
    frame, y = segments()
    fitted = SegmentCalibrator("p", field="site").fit(frame, y)
    assert list(fitted.segments_) == ["a", "b"]
    for site in "ab":
        inside = (frame["site"] == site).to_numpy()
        alone = PlattCalibrator("p").fit(frame[inside], y[inside])
        np.testing.assert_array_equal(fitted.calibrate(frame[inside]), alone.calibrate(frame[inside]))


def test_small_missing_and_unseen_values_take_the_fall_back():
    frame, y = segments()
    fitted = SegmentCalibrator("p", field="site").fit(frame, y)
    fallback = PlattCalibrator("p").fit(frame, y)
    for value in ("rare", None, "never seen"):
        rows = pl.DataFrame({"p": [0.2, 0.7], "site": [value, value]}, schema={"p": pl.Float64, "site": pl.String})
        np.testing.assert_array_equal(fitted.calibrate(rows), fallback.calibrate(rows))


def test_whole_numbers_keep_their_segment_when_they_arrive_as_floats():
    frame, y = segments()
    frame["site"] = (frame["site"] == "a").astype(int)
    fitted = SegmentCalibrator("p", field="site").fit(frame, y)
    np.testing.assert_array_equal(fitted.calibrate(frame.assign(site=frame["site"] * 1.0)), fitted.calibrate(frame))


def test_a_segment_of_one_class_takes_the_fall_back():
    frame, y = segments()
    y[(frame["site"] == "b").to_numpy()] = 1
    fitted = SegmentCalibrator("p", field="site", min_class_rows=0).fit(frame, y)
    assert "b" not in fitted.segments_


def test_any_method_with_its_parameters():
    frame, y = segments()
    fitted = SegmentCalibrator("p", field="site", segment_method="histogram", parameters={"n_bins": 3}).fit(frame, y)
    assert len(fitted.segments_["a"].map_.values) == 3
    assert len(np.unique(fitted.calibrate(frame))) <= 9


def test_a_feature_aware_method_sees_the_features():
    frame, y = segments()
    nested = SegmentCalibrator("p", field="site", segment_method="segment", parameters={"field": "x", "min_rows": 1e9})
    np.testing.assert_allclose(
        nested.fit(frame, y).calibrate(frame), SegmentCalibrator("p", field="site").fit(frame, y).calibrate(frame)
    )


def test_segments_beat_one_fit():
    frame, y = segments()
    fresh, fresh_y = segments(seed=1, n=20_000)
    brier = [
        np.mean((c.fit(frame, y).calibrate(fresh) - fresh_y) ** 2)
        for c in (SegmentCalibrator("p", field="site"), PlattCalibrator("p"))
    ]
    assert brier[0] < brier[1] - 0.005


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({}, DataError, "which column holds the segments\\? pass field='name'; the data has 'site', 'x'"),
        ({"field": "shop"}, DataError, "column is missing: 'shop'; the data has 'p', 'site', 'x'"),
        ({"field": "site", "parameters": {"n_bins": 3}}, ParameterError, "parameters do not fit the method 'platt'"),
        ({"field": "site", "parameters": {"score_column": "p"}}, ParameterError, "a dictionary without 'score_column'"),
        ({"field": "site", "segment_method": "magic"}, ParameterError, "unknown method 'magic'"),
        ({"field": "site", "min_rows": -1}, ParameterError, "min_rows must be a number of at least 0, got -1"),
    ],
)
def test_senseless_parameters_are_named(parameters, error, message):
    frame, y = segments(n=300)
    with pytest.raises(error, match=message):
        SegmentCalibrator("p", **parameters).fit(frame, y)


def test_a_missing_field_at_prediction_is_named():
    frame, y = segments()
    fitted = SegmentCalibrator("p", field="site").fit(frame, y)
    with pytest.raises(DataError, match="column 'site' is missing; the data has 'p'"):
        fitted.calibrate(frame[["p"]])
