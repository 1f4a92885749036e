import numpy as np
import pytest

from builders import biased_clicks
from mbct import rank_features
from mbct.errors import DataError


def test_the_columns_that_carry_the_bias_come_first():
    advice = rank_features(biased_clicks(0, 20_000).frame, "y", score_column="p")
    assert [a.column for a in advice.columns[:2]] == ["device", "night"]
    assert advice.best()[0] == "device"
    assert advice.best(1) == ["device"]
    assert "device" in str(advice)
    assert advice.to_dict()["columns"][0]["helps"]


def test_nothing_helps_where_nothing_is_wrong():
    advice = rank_features(biased_clicks(1, 10_000, calibrated=True).frame, "y", score_column="p")
    assert advice.best() == []


def test_it_is_the_same_in_any_row_order_and_on_any_number_of_threads():
    frame = biased_clicks(2, 4_000).frame
    expected = rank_features(frame, "y", score_column="p", n_threads=1)
    assert rank_features(frame.sample(frac=1.0, random_state=0), "y", score_column="p", n_threads=2) == expected


def test_named_features_alone_are_evaluated():
    advice = rank_features(biased_clicks(3, 3_000).frame, "y", score_column="p", features=["age", "site"])
    assert sorted(a.column for a in advice.columns) == ["age", "site"]
    assert np.isfinite(advice.score.gain)


def test_a_missing_column_is_named():
    with pytest.raises(DataError, match="column is missing: 'colour'"):
        rank_features(biased_clicks(4, 100).frame, "y", score_column="p", features=["colour"])


def test_a_column_that_names_the_day_helps_only_while_its_days_are_in_every_fold():
    rng = np.random.default_rng(0)
    day = np.repeat(np.arange(60), 100)
    z = rng.normal(-0.5, 1.0, len(day))
    truth = 1.0 / (1.0 + np.exp(-(z + rng.normal(0.0, 0.7, 60)[day])))
    frame = {"p": 1.0 / (1.0 + np.exp(-z)), "name": np.array([f"d{d:02d}" for d in day]), "day": day}
    y = np.array(["no", "yes"])[(rng.uniform(size=len(day)) < truth).astype(int)]
    random = rank_features({k: frame[k] for k in ("p", "name")}, y, score_column="p")
    assert random.best() == ["name"]
    for blocks in ({"time": "day"}, {"groups": "day"}):
        assert rank_features(frame, y, score_column="p", **blocks).best() == []
