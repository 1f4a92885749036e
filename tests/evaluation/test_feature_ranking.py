import numpy as np
import pytest

from builders import biased_clicks
from mbct import rank_features
from mbct.errors import DataError, MBCTWarning
from mbct.evaluation.feature_ranking import FeatureRanking, RankedFeature


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
    with pytest.warns(MBCTWarning, match="rows with one value of 'name' share their residuals"):
        random = rank_features({k: frame[k] for k in ("p", "name")}, y, score_column="p")
    assert random.best() == ["name"]
    by_group = rank_features(frame, y, score_column="p", groups="day")
    assert (by_group.best(), by_group.excluded) == ([], ())
    by_day = rank_features(frame | {"hour": np.arange(len(day)) % 24}, y, score_column="p", time="day")
    assert [a.column for a in by_day.columns] == ["hour"]
    assert by_day.excluded == ("name",)
    assert str(by_day).endswith("not evaluated, because their values identify the time: name")
    assert by_day.to_dict()["identify_time"] == ["name"]
    with pytest.warns(MBCTWarning, match="identify the time, kept because features=.*: 'name'"):
        named = rank_features(frame, y, score_column="p", time="day", features=["name"])
    assert [a.column for a in named.columns] == ["name"]


def test_it_becomes_a_frame_and_a_table_in_a_notebook():
    score, age, site = (RankedFeature(name, gain, 1e-5) for name, gain in (("p", 3e-5), ("age", 4e-5), ("<s>", 1e-5)))
    ranking = FeatureRanking(score, (age, site), ("month",))
    frame = ranking.to_frame()
    assert frame["column"].tolist() == ["p", "age", "<s>"]
    assert frame["helps"].tolist() == [True, True, False]
    shown = ranking._repr_html_()
    assert shown.count("<tr>") == 4
    assert "<td>&lt;s&gt;</td><td>1.00</td>" in shown
    assert "identify the time: month" in shown
