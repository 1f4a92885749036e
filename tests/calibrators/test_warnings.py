"""Data that would fool its user get one warning each, which says what was found and what to do."""

import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from builders import biased_clicks
from mbct import MBCTCalibrator, MBCTWarning, compare, load_model, rank_features
from mbct.calibrators.persistence import dumps
from mbct.evaluation.diagnostics.calibrated_rows import calibrated_rows

QUICK = {"max_trees": 4, "n_folds": 2}


def claims(n=2000, seed=0):
    """A base of little skill; ``amount`` is paid only where there was a claim."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.1, 0.3, n)
    y = (rng.uniform(size=n) < p).astype(int)
    frame = pd.DataFrame({"p": p, "age": rng.normal(40.0, 10.0, n), "amount": y * rng.lognormal(6.0, 1.0, n)})
    return frame, y


def fit(frame, y, **parameters):
    return MBCTCalibrator("p", **QUICK, **parameters).fit(frame, y)


def look(function, frame, y):
    """Call one of the three entries."""
    if function is compare:
        return compare(frame, y, score_column="p", methods=["platt"], cv=2)
    return function(frame, y) if function is fit else rank_features(frame, y, score_column="p")


def messages(function, frame, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        look(function, frame, y)
    assert all(issubclass(each.category, MBCTWarning) for each in caught)
    assert all(each.filename == __file__ for each in caught), "a warning must point at the user's line"
    return [str(each.message) for each in caught]


every_entry = pytest.mark.parametrize("function", [fit, rank_features, compare])


@every_entry
def test_a_column_that_holds_the_label_is_named(function):
    frame, y = claims()
    (message,) = messages(function, frame, y)
    assert message.startswith("suspected leak: amount (it alone ranks held-out labels with AUC 1.000")
    assert messages(function, frame.drop(columns="amount"), y) == []


def test_a_comparison_that_is_too_good_says_so():
    frame, y = claims()
    with pytest.warns(MBCTWarning) as caught:
        compare(frame, y, score_column="p", methods={"mbct": MBCTCalibrator(max_trees=60, n_folds=2)}, cv=2)
    assert any("suspiciously good, a column may hold the label: mbct (AUC 0." in str(each.message) for each in caught)


@every_entry
def test_swapped_labels_are_seen(function):
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 1000)
    y = (rng.uniform(size=1000) > p).astype(int)
    (message,) = messages(function, pd.DataFrame({"p": p}), y)
    assert message.startswith("the prediction ranks the labels the wrong way round (AUC 0.2")


@every_entry
def test_decisions_are_no_scores(function):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    decided = np.where(rng.uniform(size=600) < 0.8, y, 1 - y).astype(float)
    (message,) = messages(function, pd.DataFrame({"p": decided, "x": rng.normal(size=600)}), y)
    assert message.startswith("every score is 0 or 1: these look like decisions")


@every_entry
def test_too_few_rows_are_counted(function):
    rng = np.random.default_rng(0)
    y = np.array([1] * 8 + [0] * 12)
    (message,) = messages(function, pd.DataFrame({"p": rng.uniform(0.2, 0.8, 20)}), y)
    assert message == "too few rows to tell: 20, 8 positives; add rows before you trust a calibration"


@pytest.mark.parametrize("make", ["polars", "parquet"])
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_rows_that_stay_in_their_engine_are_looked_at_too(make, preset, tmp_path):
    frame, y = claims()
    cases = {
        "suspected leak: amount": frame.assign(y=y),
        "the prediction ranks the labels the wrong way round": frame[["p"]].assign(p=1.0 - frame["p"], y=y),
        "every score is 0 or 1": frame[["age"]].assign(p=np.where(y == 1, np.arange(len(y)) % 4 > 0, 0.0), y=y),
        "too few rows to tell: 20, 8 positives": frame[["p", "age"]][:20].assign(y=[1] * 8 + [0] * 12),
    }
    for message, rows in cases.items():
        pl.from_pandas(rows).write_parquet(tmp_path / "rows.parquet")
        data = pl.from_pandas(rows).lazy() if make == "polars" else str(tmp_path / "rows.parquet")
        with pytest.warns(MBCTWarning) as caught:
            MBCTCalibrator("p", preset=preset, max_trees=2).fit(data, "y")
        assert [str(each.message).startswith(message) for each in caught] == [True]
        assert caught[0].filename == __file__


def orders(n=600, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.1, 0.9, n)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n) // 30, unit="D")
    frame = pd.DataFrame({"p": p, "row": np.arange(n), "key": [f"k{i}" for i in range(n)], "day": day, "site": "a"})
    frame["text_day"] = frame["day"].dt.strftime("%d/%m/%Y")
    return frame, (rng.uniform(size=n) < p).astype(int)


LEFT_OUT = ["row", "key", "day", "text_day"]


@every_entry
def test_identifiers_and_dates_are_no_features(function):
    frame, y = orders()
    start = "no features" if function is compare else "left out"
    found = [message for message in messages(function, frame, y) if message.startswith(start)]
    assert len(found) == 1
    assert all(f"{name} (" in found[0] for name in LEFT_OUT)
    assert "site (" not in found[0]


def test_the_result_of_an_earlier_calibration_is_no_feature():
    frame, y = claims()
    scored = frame[["p", "age"]].assign(calibrated=np.sqrt(frame["p"]))
    (message,) = messages(fit, scored, y)
    assert message == "left out, features=[…] would keep them: calibrated (added by an earlier calibration)"
    with pytest.warns(MBCTWarning, match="calibrated .added by an earlier calibration"):
        fitted = MBCTCalibrator("p", **QUICK).fit(pl.LazyFrame(scored.assign(y=y)), "y")
    assert "calibrated" not in fitted.model_.bins.names


def test_a_date_is_left_out_and_suggested_as_time_in_one_warning():
    frame, y = orders()
    (message,) = messages(fit, frame[["p", "day", "site"]], y)
    assert message.startswith("left out, features=[…] would keep them: day (dates, for example 2024-01-01")
    assert message.endswith("; rows have a date ('day') and may share what happened that day: pass time='day'")


@pytest.mark.parametrize("function", [rank_features, compare])
def test_a_date_is_suggested_as_time_wherever_rows_are_split(function):
    frame, y = orders()
    assert any(message.endswith("pass time='day'") for message in messages(function, frame[["p", "day", "site"]], y))


def shops(kind):
    rng = np.random.default_rng(0)
    shop = rng.integers(0, 60, 6000)
    p = rng.beta(2, 6, 6000)
    odds = p / (1 - p) * np.exp(rng.normal(0.0, 0.8, 60)[shop])
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(6000) // 100, unit="D")
    frame = pd.DataFrame({"p": p, "shop": shop, "y": (rng.random(6000) < odds / (1 + odds)).astype(int)})
    return frame if kind == "shops" else frame.assign(ts=(day + pd.to_timedelta(np.arange(6000), unit="s")).astype(str))


@pytest.mark.parametrize("make", ["memory", "polars", "csv", "duckdb"])
@pytest.mark.parametrize(
    ("kind", "parameters", "advice"),
    [
        ("shops", {}, "pass groups='shop' if"),
        ("dates", {}, "pass time='ts'"),
        ("dates", {"features": ["shop"]}, "pass time='ts'"),
        ("dates", {"time": "ts"}, "pass groups='shop' if"),
        ("dates", {"time": "ts", "groups": "shop"}, None),
    ],
)
def test_every_engine_names_the_argument_to_pass(make, kind, parameters, advice, tmp_path):
    frame = shops(kind)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    data = {
        "memory": lambda: frame,
        "polars": lambda: pl.scan_csv(tmp_path / "rows.csv"),
        "csv": lambda: tmp_path / "rows.csv",
        "duckdb": lambda: duckdb.connect().read_csv(str(tmp_path / "rows.csv")),
    }[make]()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        MBCTCalibrator("p", **QUICK, **parameters).fit(data, "y")
    assert [each.filename for each in caught] == [__file__] * len(caught)
    found = [str(each.message) for each in caught if "pass " in str(each.message)]
    assert (found == []) if advice is None else advice in found[0]
    assert not any("looks like an identifier" in message for message in found)


def test_they_are_left_out_of_the_model_and_kept_where_they_are_asked_for():
    frame, y = orders()
    frame = frame.drop(columns=["day", "text_day"])
    with pytest.warns(MBCTWarning, match="left out"):
        assert fit(frame, y).model_.bins.names == ("p", "site")
    with pytest.warns(MBCTWarning, match="kept as features=.* asks: row \\(600 distinct values in 600 rows"):
        assert fit(frame, y, features=["row", "site"]).model_.bins.names == ("p", "row", "site")


@pytest.mark.parametrize("make", ["polars", "parquet"])
def test_an_engine_leaves_out_the_same_columns(make, tmp_path):
    frame, y = orders()
    frame = pl.from_pandas(frame.assign(y=y))
    frame.write_parquet(tmp_path / "rows.parquet")
    data = frame.lazy() if make == "polars" else str(tmp_path / "rows.parquet")
    with pytest.warns(MBCTWarning) as caught:
        lazily = MBCTCalibrator("p", **QUICK).fit(data, "y")
    (message,) = {str(each.message) for each in caught if str(each.message).startswith("left out")}
    assert all(f"{name} (" in message for name in LEFT_OUT)
    assert lazily.model_.bins.names == ("p", "site")
    with pytest.warns(MBCTWarning):
        in_memory = MBCTCalibrator("p", **QUICK).fit(frame, "y")
    assert dumps(lazily) == dumps(in_memory)


def test_values_that_are_spelled_differently_at_prediction_are_named():
    rng = np.random.default_rng(0)
    member = rng.uniform(size=4000) < 0.5
    p = rng.uniform(0.2, 0.6, 4000)
    y = rng.uniform(size=4000) < p * np.where(member, 1.5, 0.5)
    fitted = MBCTCalibrator("p", **QUICK).fit({"p": p, "member": member}, y)
    spelled = {"p": p, "member": np.where(member, "Yes", "No")}
    with pytest.warns(MBCTWarning) as caught:
        fitted.calibrate(spelled)
    (message,) = (str(each.message) for each in caught)
    assert caught[0].filename == __file__
    assert message.startswith("100% of the rows have a value of 'member' that training has not met (")
    assert "'Yes'" in message
    assert "known are 'false', 'true'" in message or "known are 'true', 'false'" in message
    fitted.calibrate({"p": p[:1], "member": ["Yes"]})
    fitted.calibrate({"p": p, "member": np.where(np.arange(4000) % 3 == 0, None, member)})


@pytest.mark.parametrize("preset", ["fast", "paper"])
@pytest.mark.parametrize("calibrated", [False, True])
def test_rows_of_the_fit_are_known_again(preset, calibrated, tmp_path):
    data, fresh = (biased_clicks(seed, 3000, calibrated=calibrated).frame for seed in (1, 2))
    MBCTCalibrator("p", preset=preset).fit(data, "y").save(tmp_path / "model.json")
    fitted = load_model(tmp_path / "model.json")
    with pytest.warns(MBCTWarning, match="these are the 3,000 rows that the model was fitted on"):
        calibrated_rows(fitted, data.sample(frac=1.0, random_state=0), "y")
    calibrated_rows(fitted, fresh, "y")
    calibrated_rows(fitted, data[:-1], "y")
