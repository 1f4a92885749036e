import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

from mbct.calibrators import LightGBMCalibrator
from mbct.calibrators.persistence import dumps, loads
from mbct.errors import DataError, MissingDependencyError, ParameterError


def biased_by_feature(seed=0, n=6000):
    rng = np.random.default_rng(seed)
    z = rng.normal(-1.0, 1.0, n)
    site, x = rng.choice(["a", "b", "c"], n), rng.normal(size=n)
    truth = 1 / (1 + np.exp(-(z + np.where(site == "a", 1.0, -0.5) + 0.6 * (x > 0))))
    frame = pd.DataFrame({"p": 1 / (1 + np.exp(-z)), "site": site, "x": x})
    return frame, (rng.uniform(size=n) < truth).astype(int), truth


def boosted(**parameters):
    return LightGBMCalibrator(**{"score_column": "p", "n_jobs": 1, **parameters})


def mean_error(calibrated, truth):
    return np.mean(np.abs(calibrated - truth))


def test_it_learns_biases_of_features():
    frame, y, _ = biased_by_feature(n=20_000)
    fresh, _, truth = biased_by_feature(seed=1)
    fitted = boosted().fit(frame, y)
    assert mean_error(fitted.calibrate(fresh), truth) < 0.2 * mean_error(fresh["p"], truth)


def test_categories_may_be_text_categorical_or_named_numbers():
    frame, y, _ = biased_by_feature()
    expected = boosted().fit(frame, y).calibrate(frame)
    typed = frame.assign(site=frame["site"].astype("category"))
    np.testing.assert_array_equal(boosted().fit(typed, y).calibrate(typed), expected)
    enum = pl.DataFrame(frame.to_dict("list")).with_columns(pl.col("site").cast(pl.Categorical))
    np.testing.assert_array_equal(boosted().fit(enum, y).calibrate(enum), expected)
    numbers = frame.assign(site=frame["site"].map({"a": 1, "b": 2, "c": 3}))
    named = boosted(categorical=["site"]).fit(numbers, y)
    assert list(named.features_.categories) == ["site"]
    np.testing.assert_array_equal(named.calibrate(numbers), expected)


def test_unseen_and_missing_values_have_a_prediction():
    frame, y, _ = biased_by_feature()
    fitted = boosted().fit(frame, y)
    odd = pd.DataFrame({"p": [0.2, 0.2], "site": ["never", None], "x": [np.nan, 0.1]})
    assert np.all(np.isfinite(fitted.calibrate(odd)))


def test_a_bias_of_missing_values_is_learnt():
    rng = np.random.default_rng(0)
    z, missing = rng.normal(-1.0, 1.0, 6000), rng.random(6000) < 0.4
    truth = 1 / (1 + np.exp(-(z + 1.5 * missing)))
    frame = pd.DataFrame({"p": 1 / (1 + np.exp(-z)), "x": np.where(missing, np.nan, rng.random(6000).round(1))})
    fitted = boosted().fit(frame, (rng.random(6000) < truth).astype(int))
    assert mean_error(fitted.calibrate(frame), truth) < 0.3 * mean_error(frame["p"], truth)
    assert loads(dumps(fitted)).calibrate(frame).tolist() == fitted.calibrate(frame).tolist()


def test_where_nothing_is_to_be_gained_the_base_stays():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 2000)
    fitted = boosted().fit({"p": p, "x": rng.normal(size=2000)}, rng.uniform(size=2000) < p)
    assert np.mean(np.abs(fitted.calibrate({"p": p, "x": p}) - p)) < 0.02
    tiny = boosted(score_column=None).fit(np.array([0.2, 0.6, 0.7]), np.array([0, 1, 1]))
    np.testing.assert_array_equal(tiny.calibrate(np.array([0.2, 0.9])), [0.2, 0.9])


def test_a_weight_is_copies_to_the_byte():
    frame, y, _ = biased_by_feature()
    weight = np.random.default_rng(2).integers(0, 4, len(y))
    rows = np.random.default_rng(3).permutation(np.repeat(np.arange(len(y)), weight))
    weighted = boosted().fit(frame, y, weight)
    assert len(weighted.trees_.root) > 5
    assert dumps(weighted) == dumps(boosted().fit(frame.iloc[rows], y[rows]))


def test_it_learns_from_a_table_of_counts():
    # A cell's positives and negatives are two rows: held out on one side, neither would tell the cell's rate.
    rng = np.random.default_rng(0)
    cells = pd.DataFrame({"p": np.tile([0.2, 0.5], 20), "site": np.repeat([f"s{i}" for i in range(20)], 2)})
    truth = np.clip(cells["p"] * np.repeat(rng.uniform(0.5, 1.5, 20), 2), 0, 1)
    positive = rng.binomial(1000, truth)
    both = pd.concat([cells, cells], ignore_index=True)
    fitted = boosted().fit(both, np.repeat([1, 0], 40), np.concatenate([positive, 1000 - positive]))
    assert mean_error(fitted.calibrate(cells), truth) < 0.2 * mean_error(cells["p"], truth)


@pytest.mark.parametrize("copies", [1, 5])
def test_copies_of_rows_are_left_out_together(copies):
    """Else rows would be evaluated by themselves, and no number of trees would be too large."""
    rng = np.random.default_rng(3)
    p = rng.uniform(0.05, 0.95, 3000)
    frame, y = {"p": p, **{f"x{j}": rng.normal(size=3000) for j in range(5)}}, rng.uniform(size=3000) < p
    fitted = boosted().fit(frame, y, sample_weight=np.full(3000, float(copies)))
    assert mean_error(fitted.calibrate(frame), p) < 0.02


def test_the_number_of_threads_does_not_matter():
    frame, y, _ = biased_by_feature()
    one, two = (LightGBMCalibrator(score_column="p", n_jobs=n).fit(frame, y) for n in (1, 2))
    np.testing.assert_allclose(one.calibrate(frame), two.calibrate(frame), rtol=1e-12)


def test_without_lightgbm_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    frame, y, _ = biased_by_feature(n=500)
    with pytest.raises(MissingDependencyError, match=r"pip install 'mbct\[lightgbm\]'"):
        boosted().fit(frame, y)


def test_columns_missing_at_prediction_are_named():
    frame, y, _ = biased_by_feature()
    fitted = boosted().fit(frame, y)
    with pytest.raises(DataError, match="column is missing: 'x'; the data has 'p', 'site'"):
        fitted.calibrate(frame[["p", "site"]])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_estimators": 0}, "n_estimators must be a number of at least 1, got 0"),
        ({"num_leaves": 1}, "num_leaves must be a number of at least 2, got 1"),
        ({"validation_fraction": 0.0}, "validation_fraction must lie between 0 and 0.5, got 0.0"),
    ],
)
def test_senseless_parameters_are_named(parameters, message):
    frame, y, _ = biased_by_feature(n=300)
    with pytest.raises(ParameterError, match=message):
        boosted(**parameters).fit(frame, y)
