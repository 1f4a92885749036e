"""Rows that belong together: ``time`` and ``groups`` of MBCTCalibrator, in memory and in every engine."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_validate

from mbct import MBCTCalibrator
from mbct.calibrators.inputs import binned_cells, training_data
from mbct.errors import DataError, MBCTWarning, ParameterError
from mbct.training.cells import Cells
from mbct.training.folds import BlockColumns
from mbct.training.trainer import PRESETS


def days(seed=0, n_days=40, n_rows=150, bias=0.0, spread=0.4):
    """A base that is right on average, a shock shared by the rows of each day, and a bias of one segment."""
    rng = np.random.default_rng(seed)
    day = np.repeat(np.arange(n_days), n_rows)
    n = len(day)
    frame = pd.DataFrame(
        {
            "p": rng.beta(2, 6, n),
            "hour": rng.integers(0, 24, n),
            "weekday": day % 7,
            "month": day // 10,
            "segment": rng.choice(list("abcd"), n),
        }
    )
    frame["ts"] = pd.Timestamp("2024-03-01") + pd.to_timedelta(24 * day + frame["hour"], unit="h")
    odds = frame["p"] / (1 - frame["p"]) * np.exp(rng.normal(0.0, spread, n_days)[day])
    odds *= np.exp(bias * (frame["segment"] == "a"))
    frame["y"] = (rng.random(n) < odds / (1 + odds)).astype(int)
    return frame, day


def model_bytes(calibrator):
    return json.dumps(calibrator.model_.to_dict(), sort_keys=True)


@pytest.mark.parametrize("seed", range(4))
def test_a_calibrated_base_with_shocks_by_day_is_left_unchanged(seed):
    frame, _ = days(seed)
    fitted = MBCTCalibrator("p", features=["hour", "weekday", "segment"], time="ts").fit(frame, "y")
    assert np.array_equal(fitted.calibrate(frame), frame["p"])


SHOP_FEATURES = ["hour", "weekday", "segment", "size"]


def with_shops(frame, seed, n_shops=60):
    """Shops that last: each has rows on most days."""
    rng = np.random.default_rng(seed)
    shop = rng.integers(0, n_shops, len(frame))
    return frame.assign(shop=shop, size=rng.random(n_shops)[shop])


@pytest.mark.parametrize("seed", range(4))
def test_groups_that_last_do_not_lift_the_guard_against_shocks_by_day(seed):
    frame = with_shops(days(seed, n_days=60)[0], seed)
    fitted = MBCTCalibrator("p", features=SHOP_FEATURES, time="ts", groups="shop").fit(frame, "y")
    assert np.array_equal(fitted.calibrate(frame), frame["p"])


def test_shocks_by_shop_are_guarded_against_beside_those_by_day():
    frame = with_shops(days(0, n_days=60)[0], 0, n_shops=30)
    rng = np.random.default_rng(1)
    odds = frame["p"] / (1 - frame["p"]) * np.exp(rng.normal(0.0, 0.6, 30)[frame["shop"]])
    frame["y"] = (rng.random(len(frame)) < odds / (1 + odds)).astype(int)
    with pytest.warns(MBCTWarning, match="rows with one value of 'shop' share their residuals"):
        by_day = MBCTCalibrator("p", features=SHOP_FEATURES, time="ts").fit(frame, "y")
    both = MBCTCalibrator("p", features=SHOP_FEATURES, time="ts", groups="shop").fit(frame, "y")
    assert not np.array_equal(by_day.calibrate(frame), frame["p"])
    assert np.array_equal(both.calibrate(frame), frame["p"])


def test_a_planted_bias_is_found_with_time_and_groups():
    frame = with_shops(days(5, n_days=60, n_rows=300, bias=1.0)[0], 5)
    by_day, both = (
        MBCTCalibrator("p", features=["hour", "segment"], time="ts", **more).fit(frame, "y")
        for more in ({}, {"groups": "shop"})
    )
    moved = np.log(both.calibrate(frame) / (1 - both.calibrate(frame))) - np.log(frame["p"] / (1 - frame["p"]))
    by_segment = moved.groupby(frame["segment"]).mean()
    assert by_segment["a"] - by_segment[["b", "c", "d"]].mean() == pytest.approx(1.0, abs=0.35)
    # A fifth of the rows is held out; the mean gain is over these alone.
    assert both.held_out_gain_ == pytest.approx(by_day.held_out_gain_, rel=0.5)
    assert both.held_out_gain_error_ > by_day.held_out_gain_error_
    assert len(both.held_out_gain_by_fold_) == 5


def test_groups_within_a_stretch_of_time_are_held_out_as_with_time_alone():
    frame, day = days(5, bias=1.0)
    frame["visit"] = day // 2
    features = ["hour", "segment"]
    by_day, both = (
        MBCTCalibrator("p", features=features, time="ts", max_trees=30, **more).fit(frame, "y")
        for more in ({}, {"groups": "visit"})
    )
    assert both.held_out_gain_by_fold_ == pytest.approx(by_day.held_out_gain_by_fold_, rel=0.2)


def test_a_planted_bias_is_found_under_shocks():
    frame, _ = days(5, bias=1.0)
    fitted = MBCTCalibrator("p", features=["hour", "segment"], time="ts").fit(frame, "y")
    moved = np.log(fitted.calibrate(frame) / (1 - fitted.calibrate(frame))) - np.log(frame["p"] / (1 - frame["p"]))
    by_segment = moved.groupby(frame["segment"]).mean()
    assert by_segment["a"] - by_segment[["b", "c", "d"]].mean() == pytest.approx(1.0, abs=0.35)
    assert fitted.held_out_gain_ > 2 * fitted.held_out_gain_error_ > 0.0
    assert len(fitted.held_out_gain_by_fold_) == 5


def test_columns_that_identify_the_time_are_left_out_with_a_warning():
    frame, _ = days(6, bias=1.0)
    for data in (frame, pl.from_pandas(frame).lazy()):
        with pytest.warns(MBCTWarning, match="left out of the rules.*identify the time.*: 'month'") as caught:
            fitted = MBCTCalibrator("p", time="ts").fit(data, "y")
        assert [each.filename for each in caught] == [__file__]
    assert fitted.excluded_features_ == ["month"]
    month = fitted.model_.bins.names.index("month")
    assert not any(np.any(tree.feature == month) for tree in fitted.model_.trees)
    with pytest.warns(MBCTWarning, match="identify the time, kept because features"):
        MBCTCalibrator("p", features=["month", "segment"], time="ts").fit(frame, "y")


def test_an_array_a_column_and_every_engine_give_the_same_model(tmp_path):
    frame, day = days(7, bias=1.0)
    features = ["hour", "segment"]
    fitted = MBCTCalibrator("p", features=features, time="ts").fit(frame, "y")
    assert fitted.model_.trees
    frame.to_parquet(tmp_path / "rows.parquet")
    others = [
        MBCTCalibrator("p", features=features).fit(frame.drop(columns="ts"), "y", time=day),
        MBCTCalibrator("p", features=features, time="ts").fit(frame.sample(frac=1.0, random_state=1), "y"),
        MBCTCalibrator("p", features=features, time="ts").fit(str(tmp_path / "rows.parquet"), "y"),
        MBCTCalibrator("p", features=features, time="ts").fit(pl.scan_parquet(tmp_path / "rows.parquet"), "y"),
        MBCTCalibrator("p", features=features, time="ts", n_threads=1).fit(pl.from_pandas(frame), "y"),
    ]
    assert [model_bytes(other) == model_bytes(fitted) for other in others] == [True] * len(others)
    assert "ts" not in fitted.feature_names_in_


def test_weeks_and_groups_agree_between_memory_and_engine(tmp_path):
    frame, _ = days(8, bias=1.0)
    frame["who"] = np.random.default_rng(0).integers(0, 200, len(frame))
    frame.to_parquet(tmp_path / "rows.parquet")
    for blocks in ({"time": "ts", "block": "week"}, {"groups": "who"}, {"time": "ts", "groups": "who"}):
        calibrator = MBCTCalibrator("p", features=["hour", "segment"], **blocks)
        here = model_bytes(calibrator.fit(frame, "y"))
        assert model_bytes(calibrator.fit(str(tmp_path / "rows.parquet"), "y")) == here


def test_cells_with_blocks_train_by_days():
    frame, _ = days(9, bias=1.0)
    calibrator = MBCTCalibrator("p", features=["hour", "segment"], time="ts")
    fitted = calibrator.fit(frame, "y")
    data = training_data(frame, "y", None, None, "p", blocks=BlockColumns("ts"))
    bins, cells = binned_cells(data, ["hour", "segment"], "auto", PRESETS["default"])
    assert isinstance(cells, Cells)
    assert set(cells.block) == set(range(40))
    from_cells = MBCTCalibrator(features=["hour", "segment"]).fit_cells(cells, bins)
    assert model_bytes(from_cells) == model_bytes(fitted)


def test_groups_are_routed_by_scikit_learn():
    frame, day = days(10, bias=1.0, n_days=20)
    X, y = frame[["p", "hour", "segment"]], frame["y"]
    calibrator, folds = MBCTCalibrator("p", max_trees=20), GroupKFold(3)
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(
            clone(calibrator).set_fit_request(groups=True),
            *(X, y),
            cv=folds,
            params={"groups": day},
            error_score="raise",
            return_estimator=True,
        )
    for fitted, (train, _) in zip(found["estimator"], folds.split(X, y, day), strict=True):
        by_group = clone(calibrator).fit(X.iloc[train], y.iloc[train], groups=day[train])
        by_row = clone(calibrator).fit(X.iloc[train], y.iloc[train])
        assert model_bytes(fitted) == model_bytes(by_group) != model_bytes(by_row)


def test_a_gap_leaves_out_days_next_to_held_out_ones_and_keeps_the_bias_that_all_share():
    frame, _ = days(11, bias=1.0)

    def fitted(**gap):
        return MBCTCalibrator("p", features=["hour", "segment"], time="ts", max_trees=30, **gap).fit(frame, "y")

    without, narrow, wide = fitted(), fitted(gap=1), fitted(gap=8)
    assert model_bytes(fitted(gap=0)) == model_bytes(without)
    assert len({model_bytes(each) for each in (without, narrow, wide)}) == 3
    a, not_a = frame["segment"] == "a", frame["segment"] != "a"
    for each in (without, narrow, wide):
        factor = each.calibrate(frame) / frame["p"]
        assert factor[a].mean() > 1.3 * factor[not_a].mean()


def test_a_bias_that_has_ended_is_kept_less_the_shorter_the_half_life():
    (biased, day), (calm, _) = (days(21, bias=bias, spread=0.1) for bias in (1.0, 0.0))
    frame = pd.concat([biased[day < 30], calm[day >= 30]], ignore_index=True)

    def moved(half_life):
        settings = {"features": ["hour", "segment"], "time": "ts", "max_trees": 30, "half_life": half_life}
        q = MBCTCalibrator("p", **settings).fit(frame, "y").calibrate(frame)[frame["segment"] == "a"]
        p = frame.loc[frame["segment"] == "a", "p"]
        return float(np.mean(np.log(q / (1 - q)) - np.log(p / (1 - p))))

    long, default, short = moved(1000.0), moved(None), moved(2.0)
    assert long > 1.2 * default > 1.2 * 1.2 * short
    assert moved(8.0) == default  # one fold of forty days in five


def test_the_paper_stops_by_held_out_blocks_on_request():
    frame, _ = days(12, spread=0.8)
    printed = MBCTCalibrator("p", preset="paper", features=["hour", "segment"], min_bin_size=60).fit(frame, "y")
    assert printed.model_.trees
    stopped = MBCTCalibrator(
        "p", preset="paper", features=["hour", "segment"], min_bin_size=60, time="ts", validate="blocks"
    ).fit(frame, "y")
    assert len(stopped.model_.trees) < len(printed.model_.trees)
    both = MBCTCalibrator(**{**stopped.get_params(), "groups": "shop"}).fit(with_shops(frame, 12), "y")
    assert len(both.model_.trees) < len(printed.model_.trees)
    with pytest.raises(DataError, match="validate='blocks' needs blocks"):
        MBCTCalibrator("p", preset="paper", validate="blocks").fit(frame.drop(columns="ts"), "y")


@pytest.mark.parametrize(
    ("parameters", "given", "error", "message"),
    [
        ({"time": "when"}, {}, DataError, "column 'when' is missing"),
        ({}, {"time": np.arange(5)}, DataError, "time has 5 rows where 6,000 were expected"),
        ({}, {"groups": np.arange(7)}, DataError, "groups has 7 rows where 6,000 were expected"),
        ({"gap": 1}, {}, ParameterError, "gap and half_life are measured in blocks of time"),
        ({"time": "ts", "block": "year"}, {}, ParameterError, "block='year' must be"),
        ({}, {"groups": 3}, DataError, "groups=3 is no column: pass its name"),
        ({"features": ["ts", "hour"], "time": "ts"}, {}, DataError, "'ts' cannot be both a feature and time='ts'"),
        ({"features": ["hour", "y"]}, {}, DataError, "'y' cannot be both a feature and y='y'"),
        ({"time": "one"}, {}, DataError, "all 6,000 rows belong to one block of time"),
        (
            {"time": "ts", "gap": 30},
            {},
            ParameterError,
            "gap=30 leaves a fold of the 40 blocks .*: take gap=15 or less",
        ),
        ({"time": "ts", "n_folds": 50}, {}, DataError, "n_folds=50 is more than the 40 blocks of rows"),
        ({"n_folds": 300}, {}, ParameterError, "n_folds=300 must be at least 2, .* and at most 100"),
    ],
)
def test_bad_use_gets_one_clear_message(parameters, given, error, message):
    frame, _ = days(0)
    with pytest.raises(error, match=message):
        MBCTCalibrator("p", **parameters).fit(frame.assign(one=1), "y", **given)
